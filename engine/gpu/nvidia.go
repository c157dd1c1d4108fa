package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"viiwork/engine"
)

// nvidiaSMI lists where the tool is: on PATH, or where Windows puts it for its Linux guests.
func nvidiaSMI() []string { return []string{"nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"} }

// smi runs nvidia-smi; found is false on a machine without it.
func (h Host) smi(ctx context.Context, args ...string) (out string, found bool, err error) {
	for _, program := range nvidiaSMI() {
		text, err := h.Run(ctx, program, args...)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return string(text), true, err
	}
	return "", false, nil
}

func (h Host) nvidia(ctx context.Context) ([]Card, []Fault) {
	cards, faults, found := h.askSMI(ctx)
	if !found {
		return nil, h.nvidiaWithoutDriver()
	}
	for i := range cards {
		if cards[i].Unified {
			cards[i].Memory = h.Memory(ctx)
		}
	}
	if !slices.ContainsFunc(cards, func(c Card) bool { return !c.whole }) {
		return cards, faults
	}
	listed, _, _ := h.smi(ctx, "-L")
	kinds := instances(listed)
	for i := range cards {
		c := &cards[i]
		c.Instances = kinds[c.Index]
		if c.Split = c.Split || len(c.Instances) > 0; c.Split {
			faults = append(faults, splitFault(*c))
		}
	}
	return cards, faults
}

// askSMI asks in the first form that the tool understands.
func (h Host) askSMI(ctx context.Context) (cards []Card, faults []Fault, found bool) {
	for _, form := range smiForms() {
		out, found, err := h.smi(ctx, form.args...)
		if !found {
			return nil, nil, false
		}
		cards, rest := form.read(out)
		if len(cards) == 0 && misunderstood(rest) {
			continue
		}
		faults := Faults(rest)
		if err != nil && len(faults) == 0 {
			faults = []Fault{toolFault(engine.AccelCUDA, "nvidia-smi", err)}
		}
		return cards, faults, true
	}
	return nil, []Fault{toolFault(engine.AccelCUDA, "nvidia-smi", errors.New("an answer that nobody understands"))}, true
}

func toolFault(accel engine.Accel, tool string, err error) Fault {
	return Fault{ID: "tool_failed", Accel: accel, Text: tool + " ended with " + err.Error(), Fix: "run " + tool + " by hand and see what it says"}
}

func splitFault(c Card) Fault {
	what := "is in MIG mode, has no instances"
	if len(c.Instances) > 0 {
		what = fmt.Sprintf("is cut into %d MIG instances (%s)", len(c.Instances), strings.Join(slices.Compact(slices.Sorted(slices.Values(c.Instances))), ", "))
	}
	index := strconv.Itoa(c.Index)
	return Fault{
		ID: "mig", Accel: c.Accel, PCI: c.PCI, Minor: true,
		Text: "card " + index + " " + what + " and cannot run a model as a whole",
		Fix:  "leave it out of gpus, or undo it with 'nvidia-smi -i " + index + " -mig 0'",
	}
}

// nvidiaWithoutDriver tells a machine without NVIDIA cards from one whose driver is missing: the kernel lists the
// hardware either way.
func (h Host) nvidiaWithoutDriver() []Fault {
	devices, _ := filepath.Glob(h.path("sys/bus/pci/devices/*/vendor"))
	for _, path := range devices {
		class := readLine(filepath.Join(filepath.Dir(path), "class"))
		if readLine(path) == vendorNVIDIA && strings.HasPrefix(class, "0x03") { // displays and what computes like them; a card's sound is another class
			return []Fault{{
				ID: "no_driver", Accel: engine.AccelCUDA, PCI: known(filepath.Base(filepath.Dir(path))),
				Text: "there is an NVIDIA card, but no nvidia-smi to ask about it",
				Fix:  "install NVIDIA's driver; in a container, start it with the card (--gpus)",
			}}
		}
	}
	return nil
}

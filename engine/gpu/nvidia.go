package gpu

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"regexp"
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
	out, found, err := h.smi(ctx, "--query-gpu=index,name,uuid,memory.total,pci.bus_id", "--format=csv,noheader,nounits")
	if !found {
		return nil, nil
	}
	cards, rest := parseCards(out)
	faults := nvidiaFaults(rest)
	if err != nil && len(faults) == 0 {
		faults = []Fault{{
			Accel: engine.AccelCUDA,
			Text:  "nvidia-smi ended with " + err.Error(),
			Fix:   "run nvidia-smi by hand and see what it says",
		}}
	}
	if len(cards) == 0 {
		return nil, faults
	}
	instances, _, _ := h.smi(ctx, "-L")
	for _, index := range splitCards(instances) {
		for i := range cards {
			if cards[i].Index == index {
				cards[i].Split = true
				faults = append(faults, Fault{
					Accel: engine.AccelCUDA,
					PCI:   cards[i].PCI,
					Text:  "card " + strconv.Itoa(index) + " is cut into MIG instances and cannot run a model as a whole",
					Fix:   "leave it out of gpus, or undo it with 'nvidia-smi -i " + strconv.Itoa(index) + " -mig 0'",
				})
			}
		}
	}
	return cards, faults
}

// parseCards reads the lines that are cards (index, name, uuid, memory in MiB, bus) and returns the others as they are:
// nvidia-smi mixes its faults among them.
func parseCards(text string) (cards []Card, rest string) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		index, err := strconv.Atoi(fields[0])
		if err != nil || index < 0 || len(fields) < 5 {
			rest += line
			continue
		}
		n := len(fields)
		cards = append(cards, Card{
			Index:  index,
			Accel:  engine.AccelCUDA,
			Name:   strings.Join(fields[1:n-3], ", "), // should a name ever hold a comma
			UUID:   fields[n-3],
			Memory: mebibytes(fields[n-2]),
			PCI:    known(fields[n-1]),
		})
	}
	return cards, rest
}

// mebibytes reads a figure; [N/A], N/A, [Not Supported], ERR! and whatever else is no number are unknown.
func mebibytes(field string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(field, " MiB"), 10, 64)
	if err != nil || n <= 0 || n > 1<<40 {
		return nil
	}
	n <<= 20
	return &n
}

// known returns a bus id as it is, and "" for the words that stand for an unknown one.
func known(field string) string {
	if !strings.Contains(field, ":") {
		return ""
	}
	return field
}

// splitCards reads `nvidia-smi -L`: instances are listed indented below their card.
func splitCards(text string) []int {
	var split []int
	card := -1
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, "GPU "); found {
			number, _, _ := strings.Cut(rest, ":")
			card = -1
			if n, err := strconv.Atoi(number); err == nil {
				card = n
			}
		} else if strings.HasPrefix(strings.TrimSpace(line), "MIG ") && card >= 0 {
			split = append(split, card)
			card = -1 // told once
		}
	}
	return split
}

var busID = regexp.MustCompile(`\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]\b`)

// nvidiaFaults reads what nvidia-smi printed besides cards. Its faults have no codes, only texts.
func nvidiaFaults(text string) []Fault {
	var faults []Fault
	add := func(pci, what, fix string) {
		faults = append(faults, Fault{Accel: engine.AccelCUDA, PCI: pci, Text: what, Fix: fix})
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.Contains(line, "Driver/library version mismatch"):
			add("", "the NVIDIA driver was updated but the old one is still loaded", "reboot this machine")
		case strings.Contains(line, "GPU is lost"):
			pci := busID.FindString(line)
			add(pci, strings.TrimSpace("NVIDIA card "+pci)+" is lost", "reboot this machine; if it happens again, check the card, its power and its slot")
		case strings.Contains(line, "Failed to initialize NVML: Unknown Error"):
			add("", "this container has lost its NVIDIA cards", "restart the container; the host's cards are fine")
		case strings.Contains(line, "couldn't communicate with the NVIDIA driver"):
			add("", "no NVIDIA driver is loaded", "install or load the driver, then run nvidia-smi")
		}
	}
	return faults
}

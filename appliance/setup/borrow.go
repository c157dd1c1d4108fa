package setup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"viiwork/appliance/config"
	"viiwork/engine"
	"viiwork/engine/gpu"
	"viiwork/images"
)

// Borrows tells that this program runs in a container that has no nvidia-smi, which Docker puts into containers with
// cards only: it is then borrowed from those.
func Borrows(host gpu.Host) bool {
	boxed := slices.ContainsFunc([]string{".dockerenv", "run/.containerenv"}, func(mark string) bool {
		_, err := os.Stat(filepath.Join(host.Root, mark))
		return err == nil
	})
	if !boxed {
		return false
	}
	_, err := exec.LookPath("nvidia-smi")
	return errors.Is(err, exec.ErrNotFound)
}

// ListCards lists the cards of this machine. In a container those of NVIDIA are asked for in a throw-away one with all
// cards, by probe, if a model is to run on them.
func ListCards(ctx context.Context, host gpu.Host, cfg *config.Config, probe func(ctx context.Context, image, program string, args ...string) (string, error)) ([]gpu.Card, []gpu.Fault) {
	image := cudaImage(cfg)
	if image == "" || !Borrows(host) {
		return host.List(ctx)
	}
	var refused error
	host.Run = Lent(host.Run, func(ctx context.Context, program string, args ...string) (string, error) {
		out, err := probe(ctx, image, program, args...)
		if err != nil {
			refused = err
		}
		return out, err
	})
	cards, faults := host.List(ctx)
	for i, f := range faults {
		if f.ID == "tool_failed" && f.Accel == engine.AccelCUDA && refused != nil { // there is no tool here that could be run by hand
			faults[i] = gpu.Fault{ID: handedOn, Accel: f.Accel, Text: "no container could be asked for NVIDIA cards: " + refused.Error(),
				Fix: "do as it says, or give this node's own container the cards (--gpus all)"}
		}
	}
	return cards, faults
}

// Lent answers for nvidia-smi by way of a container, and for all else by run. What Docker itself says when it cannot is
// handed on like a word of the program's: it is read for known faults.
func Lent(run gpu.Run, in func(ctx context.Context, program string, args ...string) (string, error)) gpu.Run {
	return func(ctx context.Context, program string, args ...string) ([]byte, error) {
		if program != "nvidia-smi" {
			return run(ctx, program, args...)
		}
		out, err := in(ctx, program, args...)
		if err != nil {
			out += "\n" + err.Error()
		}
		return []byte(out), err
	}
}

// cudaImage is the first image that a model runs on NVIDIA cards, "" = none does.
func cudaImage(cfg *config.Config) string {
	for _, m := range cfg.Models {
		if m.Llamacpp.Runner != "docker" || len(m.GPUs) == 0 || rocmImage(m.Llamacpp.Image) {
			continue
		}
		if ref, err := images.Resolve(m.Llamacpp.Image); err == nil {
			return ref
		}
	}
	return ""
}

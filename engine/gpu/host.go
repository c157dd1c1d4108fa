package gpu

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"viiwork/engine"
)

// Card is one card of this machine.
type Card struct {
	Index       int // host index within its family: what a model's gpus name
	Accel       engine.Accel
	Name        string // for the owner's eyes
	Memory      *int64 // bytes of its own memory; nil = unknown
	Gfx         string // AMD: gfx906; "" = unknown
	PCI         string // 0000:03:00.0; "" = unknown
	RenderMinor int    // AMD: number of its /dev/dri/renderD node; 0 = unknown
	UUID        string // NVIDIA
	Integrated  bool   // part of the processor: listed, but not for models
	Split       bool   // NVIDIA: cut into MIG instances, cannot run a model as a whole
}

// Fault is something wrong with a card or its driver, and the way out.
type Fault struct {
	Accel engine.Accel
	PCI   string // of the card, when only one is concerned
	Text  string
	Fix   string
}

// Run runs a program and returns what it printed, on both streams, also when it failed: nvidia-smi tells its faults on
// standard output.
type Run func(ctx context.Context, name string, args ...string) ([]byte, error)

// Host is the machine to look at.
type Host struct {
	Root string // "/", or a folder that stands for it
	Run  Run
}

// List returns the cards of the machine under root and what is wrong with them: AMD first, each family by its index.
func List(ctx context.Context, root string, run Run) ([]Card, []Fault) {
	h := Host{Root: root, Run: run}
	cards, faults := h.amd()
	more, moreFaults := h.nvidia(ctx)
	return append(cards, more...), append(faults, moreFaults...)
}

// Placed tells whether the processes sit on the given cards of this machine.
func Placed(ctx context.Context, pids []int, gpus []int, accel engine.Accel) engine.Placement {
	return Host{Root: "/", Run: Exec}.Placed(ctx, pids, gpus, accel)
}

func (h Host) path(elements ...string) string {
	return filepath.Join(append([]string{h.Root}, elements...)...)
}

const runTimeout = 20 * time.Second // a lost card can make nvidia-smi hang

// Exec is the Run of this machine.
func Exec(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &engine.Printed{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	return []byte(out.String()), err
}

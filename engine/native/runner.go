package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"viiwork/engine"
)

// Config says where a Runner keeps what it must remember.
type Config struct {
	StateDir string // absolute; its folder "engines" is ours
	Node     string // the node's name, for logs
	Log      *slog.Logger
}

// Runner starts and finds the engine processes of one node.
type Runner struct {
	dir  string
	log  *slog.Logger
	next atomic.Uint32 // the port to try next: no two engines are given one while neither listens yet
}

var _ engine.Runner = (*Runner)(nil)

// New builds a Runner. It touches nothing.
func New(cfg Config) *Runner {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{
		dir: filepath.Join(cfg.StateDir, "engines"),
		log: cfg.Log.With("node", cfg.Node),
	}
	r.next.Store(rand.Uint32N(ports)) // not where another node of this machine has begun
	return r
}

// Find returns the recorded processes that still run. A record whose process is gone, or whose number now belongs to
// another process, is removed.
func (r *Runner) Find(ctx context.Context) ([]engine.Process, error) {
	paths, err := filepath.Glob(filepath.Join(r.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing engine records: %w", err)
	}
	var found []engine.Process
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := r.find(path)
		if err != nil {
			return nil, fmt.Errorf("reading engine record %s: %w", filepath.Base(path), err)
		}
		if p != nil {
			found = append(found, p)
		}
	}
	return found, nil
}

// find returns nil, and removes the record, when there is no such process any more. A failure to look removes nothing:
// the engine would run on with nobody to know it.
func (r *Runner) find(path string) (*process, error) {
	rec, err := readRecord(path)
	alive := false
	if err == nil {
		alive, err = rec.lives()
	}
	if err != nil && !errors.Is(err, errBadRecord) {
		return nil, err
	}
	if alive {
		return r.process(rec), nil
	}
	r.log.Info("an engine record fits no process and is removed", "record", filepath.Base(path))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return nil, nil
}

// Start launches the program in its own session. Its record is written before Start returns.
func (r *Runner) Start(ctx context.Context, spec engine.Spec) (engine.Process, error) {
	p, err := r.start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("starting backend %s: %w", spec.Backend, err)
	}
	return p, nil
}

func (r *Runner) start(ctx context.Context, spec engine.Spec) (*process, error) {
	program, err := look(spec.Model.Binary)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of engine records: %w", err)
	}
	output, err := openLog(r.logPath(spec.Backend))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	port, err := r.freePort(ctx)
	if err != nil {
		return nil, err
	}
	// Not CommandContext: the process is meant to outlive ctx.
	cmd := exec.Command(program, append(slices.Clone(spec.Args), spec.Bind("127.0.0.1", port)...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, output, output
	cmd.Env = environment(spec)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	rec := record{PID: cmd.Process.Pid, Port: port, Backend: spec.Backend, Hash: spec.Hash}
	// From here on the process is watched and reaped by its number, like one that was found.
	_ = cmd.Process.Release()
	if rec.Started, _, err = startTime(rec.PID); err == nil {
		err = writeRecord(r.recordPath(spec.Backend), rec)
	}
	if err != nil {
		killUnrecorded(rec.PID)
		return nil, fmt.Errorf("recording process %d: %w", rec.PID, err)
	}
	return r.process(rec), nil
}

func (r *Runner) process(rec record) *process {
	return &process{rec: rec, recordPath: r.recordPath(rec.Backend), logPath: r.logPath(rec.Backend), log: r.log}
}

func (r *Runner) recordPath(backend string) string {
	return filepath.Join(r.dir, engine.SafeName(backend)+".json")
}

func (r *Runner) logPath(backend string) string {
	return filepath.Join(r.dir, engine.SafeName(backend)+".log")
}

// look finds the program; the errors are for the owner.
func look(binary string) (string, error) {
	path, err := exec.LookPath(binary)
	switch {
	case err == nil:
		return filepath.Abs(path)
	case strings.ContainsRune(binary, filepath.Separator):
		return "", fmt.Errorf("program %s cannot be run: %w: set llamacpp.binary to the path of llama-server", binary, err)
	}
	return "", fmt.Errorf("%s is not on PATH: install llama.cpp, or set llamacpp.binary to the path of llama-server", binary)
}

// environment is what little of the node's own may pass, the cards, and then the owner's env, which wins.
func environment(spec engine.Spec) []string {
	set := map[string]string{}
	maps.Copy(set, engine.DeviceEnv(spec.Model.Accel, spec.GPUs))
	maps.Copy(set, spec.Model.Env)
	maps.Copy(set, spec.Env)
	env := engine.CleanEnv(os.Environ())
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, name+"="+set[name]) // of two entries the later one counts
	}
	return env
}

// Engines get ports below those that systems hand out by themselves: until an engine has come so far as to listen, such a
// one could be given to somebody else.
const (
	firstPort = 20000
	ports     = 10000
)

// freePort is a port that nobody has at this moment.
func (r *Runner) freePort(ctx context.Context) (port int, err error) {
	var cfg net.ListenConfig
	for range 100 {
		port = firstPort + int(r.next.Add(1)%ports)
		var l net.Listener
		if l, err = cfg.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("looking for a free port: %w", err)
}

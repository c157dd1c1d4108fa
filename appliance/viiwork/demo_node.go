package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"viiwork/appliance"
	"viiwork/engine/docker"
	"viiwork/engine/native"
)

// demoNode is one node of the demo: 'viiwork serve' in a process of its own.
type demoNode struct {
	name string
	dir  string // holds viiwork.yaml, log and state
	port int    // on 127.0.0.1
	node *node  // to ask it

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is over
	err   error         // how it ended; to be read after ended
	said  string        // what was last told of its progress
}

func newDemoNode(name, dir string, port int) *demoNode {
	return &demoNode{
		name: name, dir: dir, port: port, ended: make(chan struct{}),
		node: nodeAt(appliance.SocketPath(filepath.Join(dir, "state")), "viiwork demo"),
	}
}

func (d *demoNode) config() string { return filepath.Join(d.dir, "viiwork.yaml") }
func (d *demoNode) log() string    { return filepath.Join(d.dir, "log") }
func (d *demoNode) url() string    { return fmt.Sprintf("http://127.0.0.1:%d", d.port) }

// start runs program as the node, and tells deaths when it is over.
func (d *demoNode) start(program string, environ []string, deaths chan<- *demoNode) error {
	log, err := os.OpenFile(d.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command(program, "serve", "--stop-engines", "--until-eof", "--config", d.config())
	d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = environ, log, log
	// Out of reach of the terminal's Ctrl-C: its second signal would cut it short. Its input ends when this process does,
	// however that ends. (Linux can send a signal then, but sends it once for every thread, and two mean hurry.)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err = d.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", d.name, err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.ended)
		deaths <- d
	}()
	return nil
}

// signal tells the process something; one that is over hears nothing.
func (d *demoNode) signal(s syscall.Signal) { _ = d.cmd.Process.Signal(s) }

// endPatience is for a node that was told to end: it drains for two seconds and ends its engines.
const endPatience = 30 * time.Second

// wait returns when the process is over. It helps after a while, or at once with hurry.
func (d *demoNode) wait(hurry <-chan struct{}) {
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-d.ended:
		return
	case <-hurry:
		d.signal(syscall.SIGTERM) // its own second one: it leaves without waiting for answers
	case <-patience.C:
	}
	select {
	case <-d.ended:
	case <-time.After(2 * time.Second):
		d.signal(syscall.SIGKILL)
		<-d.ended
	}
}

// sweep ends the engines that a node left behind which did not end in peace.
func (d *demoNode) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	state := filepath.Join(d.dir, "state")
	containers := docker.New(docker.Config{Node: d.name, StateDir: state, UID: os.Getuid(), GID: os.Getgid()})
	defer containers.Close()
	found, err := native.New(native.Config{Node: d.name, StateDir: state}).Find(ctx)
	if more, err := containers.Find(ctx); err == nil { // no Docker, no containers
		found = append(found, more...)
	}
	errs := []error{err}
	for _, p := range found {
		errs = append(errs, p.Stop(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ending the engines of %s: %w", d.name, err)
	}
	return nil
}

// lastWords are the last lines of its log, indented.
func (d *demoNode) lastWords() string {
	const most, lines = 8 << 10, 12
	f, err := os.Open(d.log())
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	text, _ := io.ReadAll(io.LimitReader(f, most))
	all := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return "  " + indent(strings.Join(all[max(0, len(all)-lines):], "\n"), 2)
}

// how words the end of the process.
func (d *demoNode) how() string {
	if d.err == nil {
		return "it was told to"
	}
	return d.err.Error()
}

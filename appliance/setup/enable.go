package setup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Run runs a program of the machine and returns what it printed on both streams.
type Run func(ctx context.Context, name string, args ...string) (string, error)

// Command is the real Run.
func Command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// ErrByHand is what Enable returns where nothing starts services. Its wrapping says how to start the node.
var ErrByHand = errors.New("nothing on this machine starts services")

// Enable makes the machine start the node, now and from now on. A node that runs as the service already is started anew
// and adopts its engines.
func Enable(ctx context.Context, m Machine, run Run) error {
	l := m.Layout()
	switch m.Manager {
	case Systemd:
		return m.steps(ctx, run, "journalctl -n 30 -u viiwork",
			m.systemctl("daemon-reload"), m.systemctl("enable", "viiwork.service"), m.systemctl("restart", "viiwork.service"))
	case Launchd:
		target := fmt.Sprintf("gui/%d", m.UID)
		_, _ = run(ctx, "launchctl", "bootout", target+"/"+AgentLabel) // it may not be there
		return m.steps(ctx, run, "tail "+m.agentLog(),
			[]string{"launchctl", "bootstrap", target, l.Service}, []string{"launchctl", "kickstart", target + "/" + AgentLabel})
	case Compose:
		return m.steps(ctx, run, "docker compose -f "+l.Service+" logs",
			[]string{"docker", "compose", "-f", l.Service, "up", "-d"})
	}
	return fmt.Errorf("%w: start the node with %s, and have that done at every start of the machine", ErrByHand, m.Start(""))
}

// Revive starts a service that systemd has given up on, as it does after a wrong use or a refusal. One that somebody has
// stopped stays as it is, and other managers do not give up.
func Revive(ctx context.Context, m Machine, run Run) error {
	if m.Manager != Systemd || !m.there(m.Layout().Service) {
		return nil
	}
	if _, err := run(ctx, "systemctl", append(m.systemctl()[1:], "is-failed", "--quiet", "viiwork.service")...); err != nil {
		return nil
	}
	return m.steps(ctx, run, "journalctl -n 30 -u viiwork", m.systemctl("start", "viiwork.service"))
}

// disable ends the service and keeps it from coming back. Engines run on.
func disable(ctx context.Context, m Machine, run Run) error {
	switch m.Manager {
	case Systemd:
		return m.steps(ctx, run, "systemctl status viiwork", m.systemctl("disable", "--now", "viiwork.service"))
	case Launchd:
		return m.steps(ctx, run, "launchctl print gui", []string{"launchctl", "bootout", fmt.Sprintf("gui/%d/%s", m.UID, AgentLabel)})
	case Compose:
		return m.steps(ctx, run, "docker compose ls", []string{"docker", "compose", "-f", m.Layout().Service, "down"})
	}
	return nil
}

func (m Machine) systemctl(args ...string) []string {
	if m.User {
		return append([]string{"systemctl", "--user"}, args...)
	}
	return append([]string{"systemctl"}, args...)
}

// steps runs commands until one fails; look is where to find out why.
func (m Machine) steps(ctx context.Context, run Run, look string, commands ...[]string) error {
	for _, c := range commands {
		if out, err := run(ctx, c[0], c[1:]...); err != nil {
			if m.User && m.Manager == Systemd {
				look = strings.Replace(look, "journalctl", "journalctl --user", 1)
			}
			return fmt.Errorf("running '%s': %w: %s: look at '%s'", strings.Join(c, " "), err, lastLine(out), look)
		}
	}
	return nil
}

// lastLine is what a program said last, which is mostly why it failed.
func lastLine(out string) string {
	out = strings.TrimSpace(out)
	if i := strings.LastIndexByte(out, '\n'); i >= 0 {
		out = out[i+1:]
	}
	if len(out) > 300 {
		out = strings.ToValidUTF8(out[:300], "") + "…"
	}
	if out == "" {
		return "it said nothing"
	}
	return out
}

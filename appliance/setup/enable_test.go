package setup_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance/setup"
)

// recorded is a Run that writes down what is run, and fails where fails is part of it.
func recorded(ran *[]string, fails string) setup.Run {
	return func(_ context.Context, name string, args ...string) (string, error) {
		line := strings.Join(append([]string{name}, args...), " ")
		*ran = append(*ran, line)
		if fails != "" && strings.Contains(line, fails) {
			return "first\nJob failed", errors.New("exit status 1")
		}
		return "", nil
	}
}

func TestEachManagerIsToldInItsWords(t *testing.T) {
	for name, c := range map[string]struct {
		machine setup.Machine
		want    []string
		off     []string
	}{
		"systemd":      {setup.Machine{Manager: setup.Systemd}, []string{"systemctl daemon-reload", "systemctl enable viiwork.service", "systemctl restart viiwork.service"}, []string{"systemctl disable --now viiwork.service"}},
		"systemd user": {setup.Machine{Manager: setup.Systemd, User: true, Home: "/h"}, []string{"systemctl --user daemon-reload", "systemctl --user enable viiwork.service", "systemctl --user restart viiwork.service"}, []string{"systemctl --user disable --now viiwork.service"}},
		"launchd":      {setup.Machine{Manager: setup.Launchd, User: true, Home: "/Users/a", UID: 501}, []string{"launchctl bootout gui/501/viiwork", "launchctl bootstrap gui/501 /Users/a/Library/LaunchAgents/viiwork.plist", "launchctl kickstart gui/501/viiwork"}, []string{"launchctl bootout gui/501/viiwork"}},
		"compose":      {setup.Machine{Manager: setup.Compose}, []string{"docker compose -f /etc/viiwork/compose.yaml up -d"}, []string{"docker compose -f /etc/viiwork/compose.yaml down"}},
	} {
		var ran []string
		if err := setup.Enable(t.Context(), c.machine, recorded(&ran, "")); err != nil || !slices.Equal(ran, c.want) {
			t.Errorf("%s: ran %q, %v", name, ran, err)
		}
		ran = nil
		if err := setup.Disable(t.Context(), c.machine, recorded(&ran, "")); err != nil || !slices.Equal(ran, c.off) {
			t.Errorf("%s: ran %q, %v", name, ran, err)
		}
	}
}

func TestOnlyAServiceThatWasGivenUpIsRevived(t *testing.T) {
	m := setup.Machine{Manager: setup.Systemd, User: true, Home: "/h", Root: t.TempDir()}
	unit := filepath.Join(m.Root, m.Layout().Service)
	for name, c := range map[string]struct {
		there bool
		fails string
		want  []string
	}{
		"no service": {false, "", nil},
		"stopped":    {true, "is-failed", []string{"systemctl --user is-failed --quiet viiwork.service"}},
		"failed":     {true, "", []string{"systemctl --user is-failed --quiet viiwork.service", "systemctl --user start viiwork.service"}},
	} {
		if c.there {
			if err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o755), os.WriteFile(unit, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		} else {
			_ = os.Remove(unit)
		}
		var ran []string
		if err := setup.Revive(t.Context(), m, recorded(&ran, c.fails)); err != nil || !slices.Equal(ran, c.want) {
			t.Errorf("%s: ran %q, %v", name, ran, err)
		}
	}
}

func TestAServiceThatDoesNotStartIsExplained(t *testing.T) {
	var ran []string
	err := setup.Enable(t.Context(), setup.Machine{Manager: setup.Systemd, User: true}, recorded(&ran, "restart"))
	if err == nil || !strings.Contains(err.Error(), "Job failed") || !strings.Contains(err.Error(), "journalctl --user") {
		t.Errorf("got %v", err)
	}
}

func TestWhereNothingStartsServicesItSaysHow(t *testing.T) {
	err := setup.Enable(t.Context(), setup.Machine{}, recorded(new([]string), ""))
	if !errors.Is(err, setup.ErrByHand) || !strings.Contains(err.Error(), "viiwork serve --config /etc/viiwork/viiwork.yaml") {
		t.Errorf("got %v", err)
	}
}

// TestSystemdTakesTheUnits asks systemd itself, without starting anything.
func TestSystemdTakesTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here; make test-systemd tries the unit on systemd itself")
	}
	for name, s := range setups() {
		if s.machine.Manager != setup.Systemd {
			continue
		}
		files, _ := setup.Files(s.machine, s.answers)
		path := filepath.Join(t.TempDir(), "viiwork.service")
		if err := os.WriteFile(path, files[len(files)-1].Content, 0o644); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "viiwork.service:") && !strings.Contains(line, "is not executable: No such file") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

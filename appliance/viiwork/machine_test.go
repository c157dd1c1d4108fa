package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/status"
)

// machine is one of its own, in a container in which systemd is the first process.
type machine struct {
	t    *testing.T
	name string
}

// serviceProgram is what the service of a setup runs.
const serviceProgram = "/opt/viiwork/versions/current/viiwork"

// boot starts a machine, or skips the test where there is no image of one. Options are Docker's.
func boot(t *testing.T, options ...string) machine {
	t.Helper()
	if made, err := exec.Command("docker", "image", "ls", "-q", "viiwork-machine").Output(); err != nil || len(made) == 0 {
		t.Skip("needs Docker and its image of a machine with systemd: .ci/machine image makes it")
	}
	m := machine{t, fmt.Sprintf("viiwork-machine-%d", os.Getpid())}
	kit := filepath.Join("..", "..", ".ci", "machine")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the journal says:\n%s", m.journal("80"))
		}
		_ = exec.Command(kit, "end", m.name).Run()
	})
	if out, err := exec.Command(kit, append([]string{"boot", m.name}, options...)...).CombinedOutput(); err != nil {
		t.Fatalf("booting the machine: %v: %s", err, out)
	}
	return m
}

// lay copies everything below root onto the machine.
func (m machine) lay(root string) {
	m.t.Helper()
	if out, err := exec.Command("docker", "cp", root+"/.", m.name+":/").CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
}

// url is where the machine's node answers.
func (m machine) url() string {
	m.t.Helper()
	addr, err := exec.Command("docker", "inspect", "-f", "{{.NetworkSettings.IPAddress}}", m.name).Output()
	if err != nil {
		m.t.Fatal(err)
	}
	return "http://" + net.JoinHostPort(strings.TrimSpace(string(addr)), "8086")
}

// try runs a command on the machine and returns all that it says.
func (m machine) try(args ...string) (string, error) {
	out, err := exec.Command("docker", append([]string{"exec", m.name}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run runs a command that must not fail, and returns what it prints.
func (m machine) run(args ...string) string {
	m.t.Helper()
	cmd := exec.Command("docker", append([]string{"exec", m.name}, args...)...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		m.t.Fatalf("%s: %v: %s%s", strings.Join(args, " "), err, out, complaints.String())
	}
	return strings.TrimSpace(string(out))
}

// journal is the end of what the service has said.
func (m machine) journal(lines string) string {
	out, _ := m.try("journalctl", "--no-pager", "-n", lines, "-u", "viiwork")
	return out
}

// show is a property of the service.
func (m machine) show(property string) string {
	m.t.Helper()
	return m.run("systemctl", "show", "--value", "-p", property, "viiwork")
}

// await is for what is due; the limit only keeps a broken test from hanging.
func (m machine) await(what string, so func() bool) {
	m.t.Helper()
	for limit := time.Now().Add(2 * time.Minute); !so(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(limit) {
			m.t.Fatalf("waited two minutes for %s", what)
		}
	}
}

// is waits until the service has told that it is ready and its node has all its models; it returns the node's version and
// the processes that hold its models.
func (m machine) is() (version string, engines map[string]string) {
	m.t.Helper()
	m.await("a ready node", func() bool {
		var node status.Node
		said, err := m.try(serviceProgram, "status", "--json")
		if err != nil || json.Unmarshal([]byte(said), &node) != nil || node.State != "ready" || m.show("ActiveState") != "active" {
			return false
		}
		version, engines = node.Version, map[string]string{}
		for _, of := range node.Models {
			engines[of.Name] = of.Backends[0].Process
		}
		return true
	})
	return version, engines
}

package headscaletest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// Env names the program.
	Env = "VIIWORK_TEST_HEADSCALE"
	// Tag is what devices that join with [Server.AuthKey] bear.
	Tag = "tag:viiwork"

	patience = time.Minute
)

// Server is a running Headscale.
type Server struct {
	program, config, url string
	user                 string // its id
}

// Start starts a Headscale and waits until it answers. The test is skipped where there is none.
func Start(t testing.TB) *Server {
	t.Helper()
	name := os.Getenv(Env)
	if name == "" {
		t.Skipf("no Headscale: set %s to its program, or run make test-headscale", Env)
	}
	program, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no Headscale: %v", err)
	}
	dir, err := os.MkdirTemp("", "headscale") // a test's own folder can have too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listen := "127.0.0.1:" + strconv.Itoa(freePort(t))
	s := &Server{program: program, config: filepath.Join(dir, "config.yaml"), url: "http://" + listen}
	if err := os.WriteFile(s.config, []byte(configFile(t, dir, listen)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.serve(t, dir)
	var user struct{ ID json.Number }
	s.tell(t, &user, "users", "create", "mesh")
	s.user = user.ID.String()
	return s
}

// serve runs the program until the test ends. Its output is logged if the test failed.
func (s *Server) serve(t testing.TB, dir string) {
	t.Helper()
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.program, "-c", s.config, "serve")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(15 * time.Second): // it waits for streams that are open
			_ = cmd.Process.Kill()
			<-ended
		}
		out.Close()
		if t.Failed() {
			t.Logf("headscale said:\n%s", lastOf(out.Name()))
		}
	})
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if answer, err := client.Get(s.url + "/health"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ended:
			t.Fatalf("headscale ended at its start:\n%s", lastOf(out.Name()))
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("headscale does not answer:\n%s", lastOf(out.Name()))
		}
	}
}

// lastOf is the end of a log.
func lastOf(path string) string {
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-4<<10):])
}

// URL is the address of the control server.
func (s *Server) URL() string { return s.url }

// AuthKey makes a key with which devices join under [Tag]; more than one may use it.
func (s *Server) AuthKey(t testing.TB) string { return s.key(t, "--tags", Tag) }

// UserKey makes a key with which devices join as a user's.
func (s *Server) UserKey(t testing.TB) string { return s.key(t) }

func (s *Server) key(t testing.TB, more ...string) string {
	t.Helper()
	var key struct{ Key string }
	s.tell(t, &key, append([]string{"preauthkeys", "create", "-u", s.user, "--reusable", "--expiration", "1h"}, more...)...)
	if key.Key == "" {
		t.Fatal("headscale made no key")
	}
	return key.Key
}

// Expire ends the key of the device with that name, the first label of its DNS name; with off it makes it good for ever.
func (s *Server) Expire(t testing.TB, device string, off bool) {
	t.Helper()
	var devices []struct {
		ID        json.Number
		GivenName string `json:"given_name"`
	}
	s.tell(t, &devices, "nodes", "list")
	for _, d := range devices {
		if d.GivenName != device {
			continue
		}
		args := []string{"nodes", "expire", "-i", d.ID.String()}
		if off {
			args = append(args, "--disable")
		}
		s.tell(t, nil, args...)
		return
	}
	t.Fatalf("headscale knows no device %s, but %+v", device, devices)
}

// tell runs one of Headscale's commands and fills v from what it answers.
func (s *Server) tell(t testing.TB, v any, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, append([]string{"-c", s.config, "-o", "json"}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	answer, err := cmd.Output()
	if err != nil {
		t.Fatalf("headscale %s: %v: %s%s", args, err, answer, said.String())
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(answer, v); err != nil {
		t.Fatalf("headscale %s: %v: %s", args, err, answer)
	}
}

// freePort is free for TCP and for UDP.
func freePort(t testing.TB) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		p, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		l.Close()
		if err == nil {
			p.Close()
			return port
		}
	}
}

package appliance_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/engine/enginetest"
)

// play is what a child process does: print the URL it serves on, and serve until its standard input ends.
func play(role string, args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	switch role {
	case "engine":
		s := enginetest.New(enginetest.Options{Slots: 16, Model: "m", Context: 1 << 20})
		defer s.Close()
		fmt.Println(s.URL())
		<-ctx.Done()
		return nil
	case "proxy":
		return playProxy(ctx, args[0])
	case "caches":
		return playCaches(ctx, args[0], args[1], args[2])
	case "node":
		cfg, err := config.Parse("bench.yaml", []byte(nodeConfig(args[0], args[1])), nil)
		if err != nil {
			return err
		}
		return serve(ctx, cfg, false)
	case "mate":
		return playMate(ctx, args[0])
	case "serve", "serve-killed":
		cfg, err := config.Load(args[0], os.Environ())
		if err != nil {
			return err
		}
		return serve(ctx, cfg, len(args) > 1)
	}
	return fmt.Errorf("no role %q", role)
}

// playProxy is the peer to measure against: the standard library's reverse proxy, which looks at nothing.
func playProxy(ctx context.Context, engine string) error {
	target, err := url.Parse(engine)
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // the engine closes after each stream unannounced; kept connections lose requests
	proxy.Transport = transport
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := http.Server{Handler: proxy}
	context.AfterFunc(ctx, func() { server.Close() })
	fmt.Println("http://" + l.Addr().String())
	_ = server.Serve(l)
	return nil
}

// serve is a whole node.
func serve(ctx context.Context, cfg *config.Config, stopEngines bool) error {
	node, err := appliance.New(cfg, appliance.Options{
		Version:     "test",
		StopEngines: stopEngines,
		Log:         slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Ready:       func(addrs ...string) { fmt.Println("http://" + addrs[0]) },
	})
	if err != nil {
		return err
	}
	return node.Run(ctx)
}

// nodeConfig serves model m, 16 slots, from a foreign engine on a free loopback port.
func nodeConfig(engine, dir string) string {
	return fmt.Sprintf(`
node: {name: bench, state_dir: %q, drain: 1m}
api: {host: 127.0.0.1, port: %d, local: ""}
mesh: {network: lan, bind_port: %d, open: true, lan: {mdns: false}}
models:
  - {name: m, context: 1048576, parallel: 16, llamacpp: {runner: external, url: %q}}
`, filepath.Join(dir, "state"), freePort(), freePort(), engine)
}

// freePort is a loopback port nobody listens on at this moment.
func freePort() int { return portAt("127.0.0.1") }

// child is another process playing a role.
type child struct {
	url string
	cmd *exec.Cmd
}

// start runs a role in a process of its own, which ends with the test.
func start(t testing.TB, role string, args ...string) child {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil && role != "serve-killed" {
			t.Errorf("%s ended badly: %v", role, err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not start: %v", role, err)
	}
	return child{url: strings.TrimSpace(line), cmd: cmd}
}

// cpu is the processor time the child has used, in seconds.
func (c child) cpu(t testing.TB) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // USER_HZ, 100 on every Linux we build for
}

// rss is the memory the child occupies, in bytes.
func (c child) rss(t testing.TB) float64 {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid))
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	pages, _ := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	return pages * float64(os.Getpagesize())
}

// socketClient speaks to the node of the folder over its socket.
func socketClient(dir string) *http.Client {
	path := appliance.SocketPath(filepath.Join(dir, "state"))
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

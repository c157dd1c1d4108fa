package enginetest_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/engine/enginetest"
)

func runProgram(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(enginetest.Program(t), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestProgramAnswersProbesAndRefusesTypos(t *testing.T) {
	if code, _, errs := runProgram(t, "--version"); code != 0 || !strings.HasPrefix(errs, "version: 0.7.0 (build 11669, ") {
		t.Errorf("--version: %d %q", code, errs)
	}
	if code, out, _ := runProgram(t, "--help"); code != 0 || !strings.Contains(out, "\n--kv-unified-per-slot N") {
		t.Errorf("--help: %d %q", code, out)
	}
	if code, _, errs := runProgram(t, "--nope"); code != 1 || errs != "error: invalid argument: --nope\n" {
		t.Errorf("--nope: %d %q", code, errs)
	}
	if code, _, errs := runProgram(t, "-m", "/none.gguf", "--port", "0"); code != 1 || !strings.Contains(errs, "failed to load model") {
		t.Errorf("a missing model: %d %q", code, errs)
	}
}

// startProgram starts the fake program, and tells its URL when it listens.
func startProgram(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	model := filepath.Join(t.TempDir(), "m.gguf")
	if err := enginetest.WriteGGUF(model, enginetest.GGUFOptions{Layers: 1}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(enginetest.Program(t), append([]string{"-m", model, "--port", "0"}, args...)...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			return cmd, url
		}
	}
	t.Fatal("the program never listened")
	return nil, ""
}

func TestProgramLeavesOnTheFirstSignalWhenIdle(t *testing.T) {
	cmd, url := startProgram(t, "-np", "3", "-a", "org/m")
	tg := target{t, url, "", ""}
	props := tg.do("GET", "/props", nil).json(t)
	if intAt(props, "total_slots") != 3 || props["model_alias"] != "org/m" {
		t.Errorf("props %v", props)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("an idle program ended with %v", err)
	}
}

func TestProgramNeedsTwoSignalsWithAStreamOpen(t *testing.T) {
	cmd, url := startProgram(t, "--fake-decode-tps", "200")
	st := target{t, url, "", ""}.open(chatPath, chat("a", 4000, "stream", true))
	st.next(`"content":"`)
	cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("ended on the first signal: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	for over := false; !over; { // one that had no time yet takes two for one
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			over = true
		case <-time.After(500 * time.Millisecond):
		}
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit status %d", code)
	}
	io.Copy(io.Discard, st.resp.Body)
}

func TestProgramReadsItsKeyAndLoadTime(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := startProgram(t, "--api-key-file", key, "--fake-load-for", "3s")
	tg := target{t, url, "secret", ""}
	if r := tg.do("GET", "/health", nil); r.status != http.StatusServiceUnavailable {
		t.Errorf("while loading: %d", r.status)
	}
	within(t, 30*time.Second, "it is loaded", func() bool { return tg.do("GET", "/health", nil).status == 200 })
	if r := tg.do("GET", "/v1/models", nil); r.status != 200 {
		t.Errorf("with the key: %d", r.status)
	}
	tg.key = "other"
	if r := tg.do("GET", "/v1/models", nil); r.status != 401 {
		t.Errorf("with another key: %d", r.status)
	}
}

func TestProgramDividesItsContext(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"-c", "4000", "-np", "2"}, 2000},
		{[]string{"-c", "4000", "-np", "2", "-kvu"}, 4000},
		{[]string{"-np", "2", "-kvu", "--kv-unified-per-slot", "3000"}, 3000},
		{[]string{"-np", "2"}, 32768},
	} {
		_, url := startProgram(t, c.args...)
		if got := intAt(target{t, url, "", ""}.do("GET", "/props", nil).json(t), "default_generation_settings", "n_ctx"); got != c.want {
			t.Errorf("%v gives a slot %d tokens, want %d", c.args, got, c.want)
		}
	}
}

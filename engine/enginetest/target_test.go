package enginetest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"viiwork/engine/enginetest"
)

func TestMain(m *testing.M) {
	if enginetest.IsProgram() {
		os.Exit(enginetest.Main(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// client opens a connection for each request: the engine closes those that carried a stream, unannounced.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// target is a server under test, fake or real: two slots of 4096 tokens, batches of 512, the key k.
type target struct {
	t   *testing.T
	url string
	key string
	dir string // of its slot files
}

// bothTargets runs a test against the fake, and against the real server where there is one.
func bothTargets(t *testing.T, test func(*testing.T, target)) {
	t.Run("fake", func(t *testing.T) { test(t, fakeTarget(t)) })
	t.Run("real", func(t *testing.T) { test(t, realTarget(t)) })
}

// fakeTarget is about as fast as the real server is with a tiny model on one core.
func fakeTarget(t *testing.T) target {
	dir := t.TempDir()
	s := enginetest.New(enginetest.Options{Slots: 2, Context: 4096, Model: "org/m", Key: "k", Batch: 512, PromptCache: 64,
		SaveDir: dir, StateBytes: 2048, StateLayers: 4, PrefillTPS: 4000, DecodeTPS: 500})
	t.Cleanup(s.Close)
	return target{t, s.URL(), "k", dir}
}

func realTarget(t *testing.T) target {
	dir := t.TempDir()
	model := filepath.Join(dir, "tiny.gguf")
	enginetest.Real(t)
	if err := enginetest.WriteGGUF(model, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	url := enginetest.StartReal(t, model, "-np", "2", "-kvu", "--kv-unified-per-slot", "4096", "--no-cache-idle-slots", "-fa", "on",
		"--slot-save-path", dir, "--metrics", "--cache-ram", "512", "-a", "org/m", "--api-key", "k", "-b", "512", "-ub", "512")
	return target{t, url, "k", dir}
}

// reply is an answer that has been read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("an answer that is no JSON object: %v: %.300s", err, r.body)
	}
	return v
}

// at follows a path of keys into decoded JSON, through the first element of lists; the result is nil where it does not
// lead.
func at(v any, path ...string) any {
	for _, p := range path {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func intAt(v any, path ...string) int {
	n, ok := at(v, path...).(float64)
	if !ok {
		return -1
	}
	return int(n)
}

type body = map[string]any

func (tg target) request(ctx context.Context, method, path string, b any) *http.Request {
	tg.t.Helper()
	var r io.Reader
	switch v := b.(type) {
	case nil:
	case string:
		r = strings.NewReader(v)
	default:
		data, err := json.Marshal(v)
		if err != nil {
			tg.t.Fatal(err)
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, tg.url+path, r)
	if err != nil {
		tg.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if tg.key != "" {
		req.Header.Set("Authorization", "Bearer "+tg.key)
	}
	return req
}

func (tg target) do(method, path string, b any) reply {
	tg.t.Helper()
	resp, err := client.Do(tg.request(tg.t.Context(), method, path, b))
	if err != nil {
		tg.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		tg.t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, data}
}

func (tg target) post(path string, b any) reply {
	tg.t.Helper()
	return tg.do(http.MethodPost, path, b)
}

// stream is an answer being read.
type stream struct {
	t      *testing.T
	cancel context.CancelFunc
	resp   *http.Response
	events *bufio.Scanner
}

func (tg target) open(path string, b any, headers ...string) *stream {
	tg.t.Helper()
	ctx, cancel := context.WithCancel(tg.t.Context())
	req := tg.request(ctx, http.MethodPost, path, b)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		cancel()
		tg.t.Fatalf("opening a stream of %s: %v", path, err)
	}
	tg.t.Cleanup(func() { cancel(); resp.Body.Close() })
	return &stream{tg.t, cancel, resp, bufio.NewScanner(resp.Body)}
}

// leave asks for something and goes without having read anything, as soon as a slot works on it.
func (tg target) leave(path string, b any) {
	tg.t.Helper()
	ctx, cancel := context.WithCancel(tg.t.Context())
	defer cancel()
	others := tg.busy()
	req := tg.request(ctx, http.MethodPost, path, b)
	ended := make(chan error, 1)
	go func() {
		resp, err := client.Do(req)
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		ended <- err
	}()
	within(tg.t, 30*time.Second, "a slot works on it", func() bool { return tg.busy() > others })
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		tg.t.Fatal(err)
	}
}

// next reads the next data line that holds want.
func (s *stream) next(want string) string {
	s.t.Helper()
	for s.events.Scan() {
		if line := s.events.Text(); strings.HasPrefix(line, "data: ") && strings.Contains(line, want) {
			return line
		}
	}
	s.t.Fatalf("the stream ended before %q: %v", want, s.events.Err())
	return ""
}

// flows reads the rest, and tells at its end whether something came again and again, at the most half as long apart as a server
// waits until it looks whether its clients are there.
func (s *stream) flows() <-chan bool {
	told := make(chan bool, 1)
	go func() {
		longest, last := time.Duration(0), time.Now()
		for s.events.Scan() {
			now := time.Now()
			longest, last = max(longest, now.Sub(last)), now
		}
		told <- longest < 500*time.Millisecond
	}()
	return told
}

func (s *stream) close() {
	s.cancel()
	s.resp.Body.Close()
}

// slotViews are the slots as the server describes them.
func (tg target) slotViews() []map[string]any {
	tg.t.Helper()
	var v []map[string]any
	if err := json.Unmarshal(tg.do("GET", "/slots", nil).body, &v); err != nil {
		tg.t.Fatal(err)
	}
	return v
}

func (tg target) busy() int {
	n := 0
	for _, s := range tg.slotViews() {
		if s["is_processing"] == true {
			n++
		}
	}
	return n
}

// within fails the test when ok has not become true; the time is generous, since the machine may be busy.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

func user(text string) []any { return []any{body{"role": "user", "content": text}} }

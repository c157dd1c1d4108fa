package llama_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"viiwork/engine"
	"viiwork/engine/llama"
)

const key = "k-3f9a"

// routes answers each path with a status and a body; any other path is 404. It demands the key and notes the paths.
type routes struct {
	answers map[string]func(w http.ResponseWriter)

	mu    sync.Mutex
	paths []string
}

func (s *routes) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.paths)
}

func (s *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.paths = append(s.paths, r.URL.Path)
	s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+key {
		http.Error(w, `{"error":{"code":401,"message":"Invalid API Key"}}`, http.StatusUnauthorized)
		return
	}
	if answer := s.answers[r.URL.Path]; answer != nil {
		answer(w)
		return
	}
	http.Error(w, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, http.StatusNotFound)
}

func say(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// serve starts such a server and returns it with its target.
func serve(t testing.TB, answers map[string]func(http.ResponseWriter)) (*routes, engine.Target) {
	t.Helper()
	s := &routes{answers: answers}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, engine.Target{URL: server.URL, Key: key}
}

func TestCheckTellsLoadingFromReadyFromBroken(t *testing.T) {
	loading := say(503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`)
	cases := map[string]struct {
		answers map[string]func(http.ResponseWriter)
		ready   bool
		err     string
	}{
		"ready":           {map[string]func(http.ResponseWriter){"/health": say(200, `{"status":"ok"}`)}, true, ""},
		"loading":         {map[string]func(http.ResponseWriter){"/health": loading}, false, ""},
		"foreign":         {map[string]func(http.ResponseWriter){"/v1/models": say(200, `{"data":[]}`)}, true, ""},
		"foreign loading": {map[string]func(http.ResponseWriter){"/v1/models": loading}, false, ""},
		"broken":          {map[string]func(http.ResponseWriter){"/health": say(500, `{"error":"device lost"}`)}, false, "status 500: device lost"},
		"something else":  {nil, false, "status 404: File Not Found"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, target := serve(t, c.answers)
			h, err := llama.New(nil).Check(t.Context(), target)
			if h.Ready != c.ready || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %+v, %v; want ready %v, error %q", h, err, c.ready, c.err)
			}
			if !c.ready && h.Progress != -1 {
				t.Errorf("progress %v before anything is known, want -1", h.Progress)
			}
		})
	}
}

func TestAskingEndsWithTheContext(t *testing.T) {
	release := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	target := engine.Target{URL: hung.URL, Key: key}
	d := llama.New(nil)
	_, err := d.Check(ctx, target)
	_, errProps := d.Props(ctx, target)
	_, errSlots := d.Slots(ctx, target)
	for _, e := range []error{err, errProps, errSlots, d.Prove(ctx, target, "m")} {
		if !errors.Is(e, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", e)
		}
	}
}

func TestProveTriesTheKindsOfRequestInTurn(t *testing.T) {
	const chat, completions, embeddings, rerank = "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank"
	off := say(501, `{"error":{"code":501,"message":"This server does not support it","type":"not_supported_error"}}`)
	good := say(200, `{"choices":[{"index":0}]}`)
	cases := map[string]struct {
		answers map[string]func(http.ResponseWriter)
		asked   []string
		err     string
	}{
		"chat":        {map[string]func(http.ResponseWriter){chat: good}, []string{chat}, ""},
		"no template": {map[string]func(http.ResponseWriter){chat: say(400, `{}`), completions: good}, []string{chat, completions}, ""},
		"embeddings": {
			map[string]func(http.ResponseWriter){chat: off, completions: off, embeddings: say(200, `{"data":[{"embedding":[0.1]}]}`)},
			[]string{chat, completions, embeddings}, "",
		},
		"rerank": {
			map[string]func(http.ResponseWriter){chat: off, completions: off, embeddings: off, rerank: say(200, `{"results":[{"index":0}]}`)},
			[]string{chat, completions, embeddings, rerank}, "",
		},
		"all refused": {
			map[string]func(http.ResponseWriter){completions: say(500, `{"error":{"message":"CUDA error"}}`), embeddings: off},
			[]string{chat, completions, embeddings, rerank}, "status 500: CUDA error",
		},
		"loading":       {map[string]func(http.ResponseWriter){chat: say(503, `{}`)}, []string{chat}, "status 503"},
		"garbage":       {map[string]func(http.ResponseWriter){chat: say(200, "\x00\xff<html>")}, []string{chat}, "200 and no choices"},
		"empty":         {map[string]func(http.ResponseWriter){chat: say(200, `{"choices":[]}`)}, []string{chat}, "200 and no choices"},
		"never-ending":  {map[string]func(http.ResponseWriter){chat: say(200, strings.Repeat("x", 9<<20))}, []string{chat}, "more than 8 MiB"},
		"broken answer": {map[string]func(http.ResponseWriter){chat: func(http.ResponseWriter) { panic(http.ErrAbortHandler) }}, []string{chat}, "asking the engine"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, target := serve(t, c.answers)
			err := llama.New(nil).Prove(t.Context(), target, "org/m")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
			if asked := s.asked(); !slices.Equal(asked, c.asked) {
				t.Errorf("asked %q, want %q", asked, c.asked)
			}
		})
	}
}

func TestProveSendsOneSmallRequestForTheModel(t *testing.T) {
	var sent struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
		Stream    bool   `json:"stream"`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		say(200, `{"choices":[{}]}`)(w)
	}))
	t.Cleanup(server.Close)
	if err := llama.New(nil).Prove(t.Context(), engine.Target{URL: server.URL + "/"}, `odd "name"/m`); err != nil {
		t.Fatal(err)
	}
	if sent.Model != `odd "name"/m` || sent.MaxTokens != 1 || sent.Stream {
		t.Errorf("sent %+v, want one unstreamed token of the model", sent)
	}
}

func TestNoErrorShowsTheKey(t *testing.T) {
	echo := say(401, `{"error":{"message":"Incorrect API key provided: `+key+`"}}`)
	_, target := serve(t, map[string]func(http.ResponseWriter){
		"/health": echo, "/v1/models": echo, "/props": echo, "/slots": echo, "/v1/chat/completions": echo,
	})
	d := llama.New(nil)
	_, check := d.Check(t.Context(), target)
	_, props := d.Props(t.Context(), target)
	_, slots := d.Slots(t.Context(), target)
	_, address := d.Check(t.Context(), engine.Target{URL: "http://user:" + key + "@[::1", Key: key})
	refused := httptest.NewServer(nil)
	refused.Close()
	_, gone := d.Check(t.Context(), engine.Target{URL: refused.URL, Key: key})
	for i, err := range []error{check, props, slots, address, gone, d.Prove(t.Context(), target, "m")} {
		if err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("error %d: %v; want one without the key", i, err)
		}
	}
}

func TestTheKeyIsNotCarriedElsewhere(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	_, target := serve(t, map[string]func(http.ResponseWriter){"/health": func(w http.ResponseWriter) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}})
	if _, err := llama.New(nil).Check(t.Context(), target); err == nil {
		t.Error("a redirect counts as healthy")
	}
}

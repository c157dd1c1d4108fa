package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/gateway"
	"viiwork/engine/enginetest"
)

// record is a log that keeps everything, whoever writes.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// TestNoPromptCompletionOrSecretInLogsOrErrorText sends canaries through every way a request can go wrong: none may be
// found in the log, in an error of ours or in /api/requests. What an engine itself says of a request is its own.
func TestNoPromptCompletionOrSecretInLogsOrErrorText(t *testing.T) {
	const prompt, completion, secret, session = "canaryPROMPT", "canaryCOMPLETION", "canarySECRET", "canarySESSION"
	var log record
	f := fake(t, enginetest.Options{Slots: 512, Context: 4096, Reply: strings.Repeat(completion+" ", 50), Embeddings: true})
	broken := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		stream(w, `data: {"choices":[{"index":0,"delta":{"content":"`+completion+`"},"finish_reason":null}]}`, `data: {"`+completion)
		panic(http.ErrAbortHandler)
	})
	n := start(t, append(model("m", 512, f.URL()), model("broken", 512, broken)...), func(c *gateway.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.MaxBody, c.QueueTimeout = 64<<10, 5*time.Second
	}).ready()
	clean := func(what string, b []byte) {
		t.Helper()
		for _, canary := range []string{prompt, completion, secret, session} {
			if bytes.Contains(b, []byte(canary)) {
				t.Errorf("%s tells %s: %.500s", what, canary, b)
			}
		}
	}
	head := []string{"Authorization", "Bearer " + secret, "X-Api-Key", secret, "X-Session-Id", session, "Cookie", secret}
	said := false
	ways := []enginetest.Faults{{}, {CrashAfter: 3}, {ErrorAfter: 3}, {Garbage: true}, {Down: true}, {Fail: 500}, {Fail: 503}, {Fail: 400}}
	for i, fault := range ways {
		f.SetFaults(fault)
		for _, api := range apis {
			for _, more := range []string{
				"", `,"stream":true`, `,"stream":"` + prompt + `"`, `,"x":` + prompt, `,"x":"` + prompt,
				`,"x":"` + strings.Repeat(prompt, 6000) + `"`,
			} {
				names := []string{"m", "broken"}
				if i > 0 || strings.Contains(more, `"x"`) {
					names = names[:1] // a seat of the other is busy for 2 s after each break
				}
				for _, name := range names {
					body := strings.ReplaceAll(ask(api.path, name, more), `"hi"`, `"`+prompt+` scripted"`)
					r := n.post(api.path, strings.ReplaceAll(body, `"max_tokens":4`, `"max_tokens":20`), head...)
					if r.status == 200 {
						said = said || bytes.Contains(r.body, []byte(completion))
						for _, e := range events(r.body) {
							if at(e.json(), "error") != nil {
								clean(fmt.Sprintf("%s %+v: the error event", api.path, fault), []byte(e.data))
							}
						}
						continue
					}
					clean(fmt.Sprintf("%s %+v: status %d", api.path, fault, r.status), r.body)
				}
			}
		}
	}
	if !said {
		t.Fatal("no answer ever held the completion: the canary is not in the air")
	}
	rows, err := json.Marshal(n.g.Requests(1000))
	if err != nil || len(rows) < 1000 {
		t.Fatalf("rows %s, %v", rows, err)
	}
	clean("/api/requests", rows)
	clean("the log", []byte(log.String()))
}

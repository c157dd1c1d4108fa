package appliance_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"viiwork/engine/enginetest"
)

// told is one span as a collector gets it.
type told struct{ trace, id, parent, node string }

// collect is a collector of traces: the spans by name and node, and all bytes it was sent.
func collect(t *testing.T) (url string, spans func() map[string]told, raw func() string) {
	t.Helper()
	var mu sync.Mutex
	var bytes strings.Builder
	all := map[string]told{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var doc collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &doc) != nil {
			http.Error(w, "no traces", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		bytes.Write(body)
		for _, r := range doc.ResourceSpans {
			node := ""
			for _, a := range r.Resource.Attributes {
				if a.Key == "service.instance.id" {
					node = a.Value.GetStringValue()
				}
			}
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					if span.EndTimeUnixNano < span.StartTimeUnixNano {
						t.Errorf("%s ends before it begins", span.Name)
					}
					all[span.Name+"@"+node] = told{fmt.Sprintf("%x", span.TraceId), fmt.Sprintf("%x", span.SpanId), fmt.Sprintf("%x", span.ParentSpanId), node}
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	spans = func() map[string]told {
		mu.Lock()
		defer mu.Unlock()
		out := map[string]told{}
		for k, v := range all {
			out[k] = v
		}
		return out
	}
	return s.URL, spans, func() string { mu.Lock(); defer mu.Unlock(); return bytes.String() }
}

// TestBothNodesOfAForwardTellOneTrace, in the parts it had, and no word of what was asked.
func TestBothNodesOfAForwardTellOneTrace(t *testing.T) {
	t.Parallel()
	url, spans, raw := collect(t)
	engine := fakeEngine(t, enginetest.Options{Slots: 2, Model: "m", DecodeTPS: 500})
	all := lanFellows(t, 2, func(i int) []string {
		if i == 0 {
			return nil
		}
		return []string{served("m", engine.URL(), 2)}
	})
	for _, f := range all {
		f.more = fmt.Sprintf("telemetry: {otlp: %q}\n", url)
		f.spawn(t)
	}
	entry, host := all[0].name, all[1].name
	holds(t, "the entry sees the model", func() bool { return all[0].sees("m") == 1 })
	if got := all[0].chat("", question("m", "a secret question", 8, true), "X-Session-Id", "a-secret-session", "X-Viiwork-Task", "a-secret-task"); !got.complete(true) {
		t.Fatalf("%+v", got)
	}
	want := []string{"request@" + entry, "receive@" + entry, "route@" + entry, "wait@" + entry, "forward@" + entry, "request@" + host, "prefill@" + host, "decode@" + host}
	holds(t, "all parts are told", func() bool {
		got := spans()
		for _, name := range want {
			if _, ok := got[name]; !ok {
				return false
			}
		}
		return true
	})
	got := spans()
	root := got["request@"+entry]
	for name, s := range got {
		if s.trace != root.trace {
			t.Errorf("%s is in another trace", name)
		}
	}
	if root.parent != "" || got["forward@"+entry].parent != root.id || got["request@"+host].parent != got["forward@"+entry].id || got["decode@"+host].parent != got["request@"+host].id {
		t.Errorf("the parts do not hang together: %v", got)
	}
	if _, ok := got["decode@"+entry]; ok {
		t.Error("the entry tells of a decode that was its host's")
	}
	if strings.Contains(raw(), "secret") {
		t.Error("what the client said is told")
	}
}

// TestACollectorThatIsNotThereHoldsNothingUp: requests are answered and the node ends.
func TestACollectorThatIsNotThereHoldsNothingUp(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 2, Model: "m", DecodeTPS: 500})
	f := lanFellow(t, 0, served("m", engine.URL(), 2))
	f.more = "telemetry: {otlp: \"http://127.0.0.1:1\"}\n"
	f.spawn(t)
	holds(t, "the model is there", func() bool { return f.sees("m") == 1 })
	for range 20 {
		if got := f.chat("", question("m", "hello", 2, false)); !got.complete(false) {
			t.Fatalf("%+v", got)
		}
	}
	f.leave()
}

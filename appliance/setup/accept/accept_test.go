package accept_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/setup/accept"
	"viiwork/appliance/status"
)

// node answers by path, as one node and as the other members that it leads to.
func node(answers map[string]any) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		doc, ok := answers[r.URL.Path]
		if err, is := doc.(error); is {
			return nil, err
		}
		code, text := http.StatusOK, []byte(`{"error":{"message":"no such path"}}`)
		if !ok {
			code = http.StatusNotFound
		} else {
			text, _ = json.Marshal(doc)
		}
		header := http.Header{}
		header.Set("X-Viiwork-Node", "cellar")
		return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(string(text)))}, nil
	}
}

func member(name, state string, age int64) status.Member {
	return status.Member{Name: name, State: state, Addr: "192.0.2.1:8086", AgeMS: age}
}

// TestWhatIsWrongIsTheDetail: each fault of a mesh is a failed check in words.
func TestWhatIsWrongIsTheDetail(t *testing.T) {
	own := status.Node{Node: "attic", Models: []status.Model{{Name: "m", Backends: []status.Backend{{ID: "m#0", State: "ready", Slots: []status.Slot{{}}}}}}}
	both := status.Cluster{Members: []status.Member{member("attic", "alive", 0), member("cellar", "alive", 100)}}
	seen := status.Cluster{Members: []status.Member{member("cellar", "alive", 0), member("attic", "alive", 200)}, Models: []status.ClusterModel{{Name: "m", Hosts: []string{"attic"}}}}
	stale, nameless, half := seen, seen, seen
	stale.Members = []status.Member{member("cellar", "alive", 0), member("attic", "silent", -1)}
	nameless.Models = nil
	anew := seen
	anew.Members = []status.Member{member("cellar", "alive", 0), member("attic", "left", -1), member("attic", "alive", 200), member("attic", "failed", -1)}
	half.Warnings = []status.Warning{{ID: "gossip-udp", Text: "attic (192.0.2.1) is reached by TCP and not by UDP: it may be taken for dead"}}
	failed := own
	failed.Models = []status.Model{{Name: "m", Backends: []status.Backend{{ID: "m#0", State: "failed", Error: "out of memory"}}}}
	torn := own
	torn.Warnings = []status.Warning{{ID: "model_file", Text: "models[0].path: m.gguf is truncated", Fix: "put the file there"}}
	for name, c := range map[string]struct {
		answers map[string]any
		joined  bool
		check   string
		outcome accept.Outcome
		detail  string
	}{
		"no node":         {map[string]any{"/v1/status": errors.New("no node answers")}, false, "node", accept.Fail, "no node answers"},
		"another node":    {map[string]any{"/v1/status": status.Node{Node: "door"}}, false, "node", accept.Fail, "the node that answers is door"},
		"a torn file":     {map[string]any{"/v1/status": torn, "/v1/cluster": both}, false, "config", accept.Fail, "is truncated: put the file there"},
		"alone":           {map[string]any{"/v1/status": own, "/v1/cluster": status.Cluster{}}, false, "joined", accept.Skip, "no other node"},
		"kept out":        {map[string]any{"/v1/status": own, "/v1/cluster": status.Cluster{}}, true, "joined", accept.Fail, "is the secret the same"},
		"seen":            {map[string]any{"/v1/status": own, "/v1/cluster": both, "/api/members/cellar/v1/cluster": seen}, true, "ports", accept.Pass, "reached by cellar"},
		"set up anew":     {map[string]any{"/v1/status": own, "/v1/cluster": both, "/api/members/cellar/v1/cluster": anew}, true, "ports", accept.Pass, "reached by cellar"},
		"a shut port":     {map[string]any{"/v1/status": own, "/v1/cluster": both, "/api/members/cellar/v1/cluster": stale}, true, "ports", accept.Fail, "does not follow its API at 192.0.2.1:8086"},
		"half the gossip": {map[string]any{"/v1/status": own, "/v1/cluster": both, "/api/members/cellar/v1/cluster": half}, true, "ports", accept.Fail, "not by UDP"},
		"a model unseen":  {map[string]any{"/v1/status": own, "/v1/cluster": both, "/api/members/cellar/v1/cluster": nameless}, true, "joined", accept.Fail, "cellar does not list m here"},
		"a failed engine": {map[string]any{"/v1/status": failed, "/v1/cluster": both}, false, "ready:m", accept.Fail, "out of memory"},
		"elsewhere":       {map[string]any{"/v1/status": own, "/v1/cluster": both, "/v1/chat/completions": struct{}{}}, false, "content:m", accept.Fail, "cellar answered instead"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				results := accept.Run(t.Context(), accept.Config{Node: "attic", Models: []accept.Model{{Name: "m"}}, Joined: c.joined, Do: node(c.answers)})
				for _, r := range results {
					if r.Check == c.check {
						if r.Outcome != c.outcome || !strings.Contains(r.Detail, c.detail) {
							t.Errorf("got %+v, want %s with %q", r, c.outcome, c.detail)
						}
						return
					}
				}
				t.Errorf("no check %s among %+v", c.check, results)
			})
		})
	}
}

// TestASlowAnswerIsToldInWords: a check whose time is over says for how long it waited, and what to look at.
func TestASlowAnswerIsToldInWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := status.Node{Node: "attic", Models: []status.Model{{Name: "m", Backends: []status.Backend{{ID: "m#0", State: "ready", Slots: []status.Slot{{}}}}}}}
		quick := node(map[string]any{"/v1/status": own, "/v1/cluster": status.Cluster{}})
		results := accept.Run(t.Context(), accept.Config{Node: "attic", Models: []accept.Model{{Name: "m"}}, Do: func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/v1/chat/completions" {
				return quick(r)
			}
			<-r.Context().Done()
			return nil, fmt.Errorf("asking the node: %w", r.Context().Err())
		}})
		for _, r := range results {
			if strings.Contains(r.Detail, "deadline") {
				t.Errorf("%s says %q", r.Check, r.Detail)
			}
			if r.Seconds > (3 * time.Minute).Seconds() { // nor is it taken for a slow machine, which may take longer
				t.Errorf("%s takes %v s", r.Check, r.Seconds)
			}
			if r.Check == "content:m" && (r.Outcome != accept.Fail || !strings.Contains(r.Detail, "no whole answer within 3m0s: ")) {
				t.Errorf("got %+v", r)
			}
		}
	})
}

// TestASlowMachineIsWaitedFor: its slots become free later than the queue waits. One that refuses for another reason has failed.
func TestASlowMachineIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		answer, queue time.Duration
		deaf          bool // it never gives the last one a slot
		passed        accept.Outcome
		detail        string
	}{
		"quick":                 {time.Second, 20 * time.Second, false, accept.Pass, "5 at once on 1 slot: 5 on cellar"},
		"slow":                  {9 * time.Second, 20 * time.Second, false, accept.Pass, "had to ask again, since a slot became free only after 9s"},
		"very slow":             {80 * time.Second, 20 * time.Second, false, accept.Pass, "had to ask again, since a slot became free only after 1m20s"},
		"quick and deaf":        {time.Second, 20 * time.Second, true, accept.Fail, "1 were refused: is routing.queue_timeout too short"},
		"slow, and has no line": {9 * time.Second, 10 * time.Millisecond, false, accept.Fail, "4 were refused: is routing.queue_timeout too short"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own := status.Node{Node: "cellar", Models: []status.Model{{Name: "m", Backends: []status.Backend{{ID: "m#0", State: "ready", Slots: []status.Slot{{}}}}}}}
				words := json.RawMessage(`{"choices":[{"message":{"content":"ready"}}]}`)
				answers := node(map[string]any{"/v1/status": own, "/v1/cluster": status.Cluster{}, "/v1/chat/completions": words})
				slot := make(chan struct{}, 1)
				do := func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != "/v1/chat/completions" {
						return answers(r)
					}
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return nil, err
					}
					line := slot
					if c.deaf && strings.Contains(string(body), "the number 4") {
						line = nil
					}
					select {
					case line <- struct{}{}:
						defer func() { <-slot }()
					case <-time.After(c.queue):
						header := http.Header{}
						header.Set("Retry-After", "2")
						return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: http.NoBody}, nil
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
					select {
					case <-time.After(c.answer):
						return answers(r)
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				}
				var notes []string
				results := accept.Run(t.Context(), accept.Config{Node: "cellar", Models: []accept.Model{{Name: "m", NoTools: true}}, Do: do, Note: func(text string) { notes = append(notes, text) }})
				at := slices.IndexFunc(results, func(r accept.Result) bool { return r.Check == "saturate:m" })
				if at < 0 || results[at].Outcome != c.passed || !strings.Contains(results[at].Detail, c.detail) {
					t.Errorf("got %+v", results)
				}
				if slow := c.answer > 2*time.Second && c.queue > time.Second; slow != (len(notes) == 1) {
					t.Errorf("told %q", notes)
				}
			})
		})
	}
}

// TestAModelWithoutToolsIsNoFault of the machine; one that should call them and does not is.
func TestAModelWithoutToolsIsNoFault(t *testing.T) {
	own := status.Node{Node: "cellar", Models: []status.Model{{Name: "m", Backends: []status.Backend{{ID: "m#0", State: "ready", Slots: []status.Slot{{}}}}}}}
	words := json.RawMessage(`{"choices":[{"finish_reason":"length","message":{"content":"mild"}}]}`)
	answers := map[string]any{"/v1/status": own, "/v1/cluster": status.Cluster{}, "/v1/chat/completions": words}
	for noTools, want := range map[bool]accept.Outcome{true: accept.Skip, false: accept.Fail} {
		synctest.Test(t, func(t *testing.T) {
			results := accept.Run(t.Context(), accept.Config{Node: "cellar", Models: []accept.Model{{Name: "m", NoTools: noTools}}, Do: node(answers)})
			at := slices.IndexFunc(results, func(r accept.Result) bool { return r.Check == "tools:m" })
			if at < 0 || results[at].Outcome != want || !strings.Contains(results[at].Detail, "agents cannot work with this model") {
				t.Errorf("without tools %v: got %+v", noTools, results)
			}
		})
	}
}

// TestWhoHasNotHeardOfAReadyModelIsAskedAgain: a member learns a moment later than this machine that it serves. One that never
// does is a fault.
func TestWhoHasNotHeardOfAReadyModelIsAskedAgain(t *testing.T) {
	own := status.Node{Node: "attic", Models: []status.Model{{Name: "m", Backends: []status.Backend{{ID: "m#0", State: "ready", Slots: []status.Slot{{}}}}}}}
	both := status.Cluster{Members: []status.Member{member("attic", "alive", 0), member("cellar", "alive", 100)}}
	others := node(map[string]any{"/v1/status": own, "/v1/cluster": both})
	for deaf, want := range map[int]accept.Outcome{0: accept.Pass, 3: accept.Pass, 1000: accept.Fail} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			results := accept.Run(t.Context(), accept.Config{Node: "attic", Models: []accept.Model{{Name: "m"}}, Do: func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/api/members/cellar/v1/chat/completions" || r.URL.Query().Get("host") != "attic" {
					return others(r)
				}
				code, text := http.StatusOK, "{}"
				if asked++; asked <= deaf {
					code, text = http.StatusServiceUnavailable, `{"error":{"message":"attic is not ready"}}`
				}
				header := http.Header{}
				header.Set("X-Viiwork-Node", "attic")
				header.Set("X-Viiwork-Origin", "cellar")
				return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(text))}, nil
			}})
			at := slices.IndexFunc(results, func(r accept.Result) bool { return r.Check == "pin:m" })
			if at < 0 || results[at].Outcome != want || want == accept.Fail && !strings.Contains(results[at].Detail, "by way of cellar: 503 attic is not ready") {
				t.Errorf("not heard of %d times: %+v", deaf, results)
			}
		})
	}
}

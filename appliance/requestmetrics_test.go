package appliance_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"viiwork/appliance"
	"viiwork/appliance/gateway"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// scrape reads GET /metrics: the value of each series.
func scrape(t *testing.T, url string) map[string]float64 {
	t.Helper()
	answer, err := quick.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("/metrics answers %s", answer.Status)
	}
	all := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if at := strings.LastIndexByte(lines.Text(), ' '); at > 0 && lines.Text()[0] != '#' {
			if all[lines.Text()[:at]], err = strconv.ParseFloat(lines.Text()[at+1:], 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestMetricsCountARequestOnceInTheMesh: where it came in, wherever it ran, and nothing of what its client said.
func TestMetricsCountARequestOnceInTheMesh(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 4, Model: "org/m", DecodeTPS: 500})
	all := lanFellows(t, 2, func(i int) []string {
		if i == 0 {
			return nil
		}
		return []string{served("org/m", engine.URL(), 4)}
	})
	entry, host := all[0], all[1]
	for _, f := range all {
		f.spawn(t)
	}
	holds(t, "the entry sees the model", func() bool { return entry.sees("org/m") == 1 })
	for range 3 {
		if got := entry.chat("", question("org/m", "hello", 4, true), "X-Session-Id", "secret-session"); !got.complete(true) {
			t.Fatalf("%+v", got)
		}
	}
	if got := entry.chat("", question("no-such-model", "hello", 4, false)); got.status != http.StatusNotFound {
		t.Fatalf("%+v", got)
	}
	m := scrape(t, entry.url())
	done := 0.0
	for name, v := range m {
		if strings.HasPrefix(name, `viiwork_requests_total{code="200",model="org/m",`) {
			done += v
		}
		for _, never := range []string{"no-such-model", "secret-session", "/v1/", "hello"} {
			if strings.Contains(name, never) {
				t.Errorf("%q is told: %s", never, name)
			}
		}
	}
	ttft := 0.0
	for _, class := range []string{"warm", "partly", "cold"} {
		ttft += m[fmt.Sprintf(`viiwork_request_ttft_seconds_count{cache=%q,model="org/m",node=%q}`, class, host.name)]
	}
	for what, got := range map[string]float64{
		"requests":   done,
		"first ttft": ttft,
		"forwards":   m[fmt.Sprintf(`viiwork_forward_first_byte_seconds_count{node=%q}`, host.name)],
		"waits":      m[`viiwork_request_queue_seconds_count{model="org/m"}`],
	} {
		if got != 3 {
			t.Errorf("%s: %v, want 3", what, got)
		}
	}
	for name, least := range map[string]float64{
		`viiwork_requests_total{code="404",model="other",reason="none"}`:          1,
		`viiwork_request_errors_total{error="model_not_found",model="other"}`:     1,
		`viiwork_prompt_tokens_total{model="org/m"}`:                              3,
		`viiwork_output_tokens_total{model="org/m"}`:                              12,
		`viiwork_mesh_members{state="alive"}`:                                     2,
		`viiwork_mesh_model_slots{model="org/m"}`:                                 4,
		`viiwork_build_info{version="test"}`:                                      1,
		"go_goroutines":                                                           1,
		"process_resident_memory_bytes":                                           1,
		fmt.Sprintf(`viiwork_mesh_member_report_age_seconds{node=%q}`, host.name): 0,
	} {
		if got, ok := m[name]; !ok || got < least {
			t.Errorf("%s is %v (%v), want %v or more", name, got, ok, least)
		}
	}
	entry.toldUses(t, 4, 1)
	for name := range scrape(t, host.url()) {
		if strings.HasPrefix(name, "viiwork_requests_total") || strings.HasPrefix(name, "viiwork_request_ttft") {
			t.Errorf("what it was forwarded is counted at the host again: %s", name)
		}
	}
	if v := scrape(t, host.url())[`viiwork_backend_slots{backend="org/m#0",model="org/m"}`]; v != 4 {
		t.Errorf("the host tells of %v slots", v)
	}
}

// toldUses: all of the mesh's requests came in by this node, so many, and so many of them failed.
func (f *fellow) toldUses(t *testing.T, requests, failed int) {
	t.Helper()
	var board status.Board
	if !f.read("/api/board", &board) {
		t.Fatal("no board")
	}
	sums := 0
	for _, u := range board.Uses {
		if u.Window != "7d" { // midnight may have passed
			continue
		}
		if sums++; u.Node != f.name || u.Requests != requests || u.Failed != failed {
			t.Errorf("who used what: %+v", u)
		}
	}
	if sums != 1 {
		t.Errorf("%d sums of seven days, want this machine's own", sums)
	}
}

// TestMetricLabelsAreBounded whatever clients, members and engines call things.
func TestMetricLabelsAreBounded(t *testing.T) {
	counted, ear := appliance.Tallies("n", func(model string) bool { return strings.HasPrefix(model, "real") })
	ms := 12.5
	for i := range 5000 {
		ear.Ended(status.Request{Entry: "n", Node: fmt.Sprint("node", i), Model: fmt.Sprint("real", i), Reason: fmt.Sprint("why", i), Status: i, Error: fmt.Sprint("code", i), TTFTMS: &ms}, gateway.Course{})
		ear.Ended(status.Request{Entry: "n", Model: fmt.Sprint("made up", i), Status: 404}, gateway.Course{})
		ear.Forwarded(fmt.Sprint("node", i), time.Second)
		ear.Unseated(fmt.Sprint("node", i), fmt.Sprint("code", i))
	}
	ear.Ended(status.Request{Entry: "n", Model: "real\xff", Status: 200}, gateway.Course{})
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(counted)
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		values := map[string]map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if values[l.GetName()] == nil {
					values[l.GetName()] = map[string]bool{}
				}
				values[l.GetName()][l.GetValue()] = true
			}
			if f.GetName() == "viiwork_requests_total" {
				total += m.GetCounter().GetValue()
			}
		}
		for label, seen := range values {
			if label != "code" && len(seen) > 66 {
				t.Errorf("%s has %d values of %s", f.GetName(), len(seen), label)
			}
			for v := range seen {
				if strings.HasPrefix(v, "made up") || strings.HasPrefix(v, "why") {
					t.Errorf("%s has a %s %q", f.GetName(), label, v)
				}
			}
		}
	}
	if total != 10001 {
		t.Errorf("%v requests are counted of 10001", total)
	}
}

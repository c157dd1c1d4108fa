package appliance_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// series is what the sources say there is: the labels of each name.
func series(t *testing.T) map[string][]string {
	t.Helper()
	made := regexp.MustCompile(`(metric|count|spread)\("([a-z_]+)", "[^"]*"([^()]*)\)`)
	all := map[string][]string{}
	for _, file := range []string{"nodemetrics.go", "cachemetrics.go", "requestmetrics.go"} {
		for _, m := range made.FindAllStringSubmatch(text(t, file), -1) {
			var labels []string
			for _, l := range regexp.MustCompile(`"([a-z]+)"`).FindAllStringSubmatch(m[3], -1) {
				labels = append(labels, l[1])
			}
			if all["viiwork_"+m[2]] = labels; m[1] == "spread" {
				for _, end := range []string{"_sum", "_count", "_bucket"} {
					all["viiwork_"+m[2]+end] = append(labels, "le")
				}
			}
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d series found in the sources", len(all))
	}
	return all
}

func text(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMetricsAreDocumented: each with its labels, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	doc, all := text(t, "..", "docs", "metrics.md"), series(t)
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(viiwork_[a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|").FindAllStringSubmatch(doc, -1) {
		rows[m[1]] = regexp.MustCompile("[a-z]+").FindAllString(m[2], -1)
	}
	for name, labels := range all {
		if slices.Contains(labels, "le") {
			continue
		}
		if documented, ok := rows[name]; !ok || !slices.Equal(documented, labels) {
			t.Errorf("docs/metrics.md has %s with labels %v, the node with %v", name, documented, labels)
		}
	}
	for name := range rows {
		if _, ok := all[name]; !ok {
			t.Errorf("docs/metrics.md has %s, which the node does not tell", name)
		}
	}
}

// TestDashboardUsesWhatThereIs reads the queries of all panels and variables.
func TestDashboardUsesWhatThereIs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "docs", "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboard")
	}
	all := series(t)
	for _, file := range files {
		var board struct {
			Title, UID string
			Templating struct {
				List []struct{ Name, Type, Definition string }
			}
			Panels []struct {
				ID      int
				Type    string
				Title   string
				GridPos struct{ X, Y, W, H int }
				Targets []struct{ Expr, LegendFormat string }
			}
		}
		if err := json.Unmarshal([]byte(text(t, file)), &board); err != nil {
			t.Fatal(err)
		}
		ids := map[int]bool{}
		for _, p := range board.Panels {
			if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("panel %q: its id is another's, or it leaves the grid", p.Title)
			}
			ids[p.ID] = true
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("panel %q shows nothing", p.Title)
			}
			for _, q := range p.Targets {
				checkQuery(t, p.Title, q.Expr, all)
			}
		}
		for _, v := range board.Templating.List {
			if v.Type == "query" {
				checkQuery(t, "variable "+v.Name, v.Definition, all)
			}
		}
	}
}

// TestAlertsUseWhatThereIs also wants of each rule what a person at night needs.
func TestAlertsUseWhatThereIs(t *testing.T) {
	var doc struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(text(t, "..", "docs", "alerts.yaml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	all, seen := series(t), map[string]bool{}
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || !regexp.MustCompile(`^Viiwork[A-Za-z]+$`).MatchString(r.Alert) {
				t.Errorf("%q is no name, or another rule's", r.Alert)
			}
			seen[r.Alert] = true
			checkQuery(t, r.Alert, r.Expr, all)
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) {
				t.Errorf("%s does not say what is wrong and how bad it is", r.Alert)
			}
			if r.For != "" && !regexp.MustCompile(`^[0-9]+[smhd]$`).MatchString(r.For) {
				t.Errorf("%s: for: %q", r.Alert, r.For)
			}
		}
	}
	if len(seen) == 0 {
		t.Fatal("no rules")
	}
}

var (
	named    = regexp.MustCompile(`[a-z_:][a-z0-9_:]*`)
	selected = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`^([a-z]+)(=~|!=|=|!~)"[^"]*"$`)
	grouped  = regexp.MustCompile(`by \(([a-z, ]*)\)`)
)

// checkQuery holds a query against the series and their labels. It is no parser of the language: it knows as much of it as is
// used here, and refuses the rest.
func checkQuery(t *testing.T, where, query string, all map[string][]string) {
	t.Helper()
	words := []string{"sum", "max", "min", "by", "rate", "increase", "avg_over_time", "histogram_quantile", "and", "label_values", "instance"}
	labels, used := []string{"instance", "le", "job"}, 0
	bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(query, `""`)
	bare = regexp.MustCompile(`\[[0-9a-z$_]+\]|\$__[a-z_]+`).ReplaceAllString(bare, "")
	for _, name := range named.FindAllString(regexp.MustCompile(`\{[^}]*\}|by \([^)]*\)|\b[0-9.]+\b`).ReplaceAllString(bare, ""), -1) {
		switch known, ok := all[name]; {
		case ok:
			labels, used = append(labels, known...), used+1
		case strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "go_"):
			used++
		case strings.HasPrefix(query, "label_values(") && slices.Contains(labels, name):
		case !slices.Contains(words, name):
			t.Errorf("%s: there is no %s: %s", where, name, query)
		}
	}
	if used == 0 {
		t.Errorf("%s uses no series: %s", where, query)
	}
	for _, m := range selected.FindAllStringSubmatch(query, -1) {
		for _, part := range strings.Split(m[2], ", ") {
			got := matcher.FindStringSubmatch(part)
			if got == nil || got[1] != "instance" && !slices.Contains(all[m[1]], got[1]) {
				t.Errorf("%s: %s has no label for %s", where, m[1], part)
			}
		}
	}
	for _, m := range grouped.FindAllStringSubmatch(query, -1) {
		for _, label := range strings.Split(m[1], ", ") {
			if !slices.Contains(labels, label) {
				t.Errorf("%s: nothing there has a label %q: %s", where, label, query)
			}
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(bare, pair[:1]) != strings.Count(bare, pair[1:]) {
			t.Errorf("%s: %s does not match in %s", where, pair, query)
		}
	}
}

// TestCheckQueryCanFail holds the check itself against queries that must not pass.
func TestCheckQueryCanFail(t *testing.T) {
	all := map[string][]string{"viiwork_x": {"model"}}
	for _, query := range []string{"viiwork_y", `viiwork_x{node="a"}`, "sum by (node) (viiwork_x)", "sum(viiwork_x", "avg_of(viiwork_x)", "1 > 0", `viiwork_x{model=a}`} {
		probe := &testing.T{}
		checkQuery(probe, "probe", query, all)
		if !probe.Failed() {
			t.Errorf("%s passes", query)
		}
	}
	checkQuery(t, "probe", `sum by (model) (rate(viiwork_x{model=~"a|b", instance="c"}[5m])) > 0.5`, all)
}

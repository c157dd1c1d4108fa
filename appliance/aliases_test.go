package appliance_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/appliance/config"
	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// owner asks the node as a command of its machine does, and returns what came of it.
func (f *fellow) owner(t testing.TB, method, path, body string) said {
	t.Helper()
	req, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := socketClient(f.dir).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return said{status: resp.StatusCode, header: resp.Header, body: string(text), err: err}
}

func (f *fellow) setAlias(t testing.TB, name, target string) status.Alias {
	t.Helper()
	body, _ := json.Marshal(map[string]string{"name": name, "target": target})
	got := f.owner(t, "POST", "/api/aliases", string(body))
	var a status.Alias
	if got.status != 200 || json.Unmarshal([]byte(got.body), &a) != nil {
		t.Fatalf("setting %s at %s: %d %s", name, f.name, got.status, got.body)
	}
	return a
}

// alias is what the node lists under the name.
func (f *fellow) alias(name string) (found status.Alias) {
	var list []status.Alias
	f.read("/api/aliases", &list)
	for _, a := range list {
		if a.Name == name {
			return a
		}
	}
	return status.Alias{}
}

// lead tells whether the name leads to the target at all of them.
func lead(all []*fellow, name, target string) func() bool {
	return func() bool {
		for _, f := range all {
			if f.alias(name).Target != target {
				return false
			}
		}
		return true
	}
}

// TestAliasSetAnywhereHoldsEverywhere: three nodes, of which the third alone has the models; each sets, the others follow,
// requests run through it from each, and it outlives a node's death.
func TestAliasSetAnywhereHoldsEverywhere(t *testing.T) {
	t.Parallel()
	one := fakeEngine(t, enginetest.Options{Slots: 4, Model: "org/one", DecodeTPS: 500})
	two := fakeEngine(t, enginetest.Options{Slots: 4, Model: "two", DecodeTPS: 500})
	all := lanFellows(t, 3, func(i int) []string {
		if i < 2 {
			return nil
		}
		return []string{served("org/one", one.URL(), 4), served("two", two.URL(), 4)}
	})
	for _, f := range all {
		f.secret = rightSecret
		f.spawn(t)
	}
	holds(t, "all see the models", func() bool {
		return all[0].sees("org/one")+all[1].sees("org/one")+all[2].sees("org/one")+all[0].sees("two")+all[1].sees("two")+all[2].sees("two") == 6
	})
	holds(t, "who has them knows by name who sets them", func() bool { return all[2].member(all[0].name) == "alive" && all[2].member(all[1].name) == "alive" })
	var slowest time.Duration
	for i, f := range []*fellow{all[0], all[1], all[2], all[0], all[1]} {
		target := []string{"org/one", "two"}[i%2]
		a := f.setAlias(t, "team/coder", target)
		took := holds(t, "the alias is known everywhere", lead(all, "team/coder", target))
		t.Logf("set at %s, known everywhere after %v", f.name, took.Round(time.Millisecond))
		slowest = max(slowest, took)
		if a.Node != f.name || a.State != "ok" || a.Version != uint64(i+1) || all[2].alias("team/coder") != a {
			t.Errorf("%+v, at another node %+v", a, all[2].alias("team/coder"))
		}
	}
	t.Logf("at most %v", slowest.Round(time.Millisecond))
	for _, f := range all {
		for _, stream := range []bool{true, false} {
			got := f.chat("", question("team/coder", "hello", 8, stream))
			if !got.complete(stream) || got.header.Get("X-Viiwork-Model") != "org/one" || got.header.Get("X-Viiwork-Alias") != "team/coder" || got.header.Get("X-Viiwork-Node") != all[2].name {
				t.Errorf("through %s, stream %v: %d %v: %.300s", f.name, stream, got.status, got.header, got.body)
			}
		}
	}
	var c status.Cluster
	if all[1].read("/v1/cluster", &c); len(c.Aliases) != 1 || c.Aliases[0].Target != "org/one" || c.Aliases[0].Prev != "two" {
		t.Errorf("cluster %+v", c.Aliases)
	}
	all[1].kill()
	all[0].setAlias(t, "late", "two")
	if got := all[0].owner(t, "DELETE", "/api/aliases/team%2Fcoder", ""); got.status != 200 || !strings.Contains(got.body, `"removed"`) {
		t.Fatalf("%d %s", got.status, got.body)
	}
	all[1].spawn(t)
	holds(t, "a node that was away knows what was set and removed meanwhile", func() bool {
		return lead(all, "late", "two")() && lead(all, "team/coder", "")()
	})
	if got := all[1].owner(t, "POST", "/api/aliases/team/coder/revert", ""); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	holds(t, "the revert is known everywhere", lead(all, "team/coder", "org/one"))
}

// TestNodesThatSetOneAliasApartAgreeOnceTheyMeet, and the alias stays what it became.
func TestNodesThatSetOneAliasApartAgreeOnceTheyMeet(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 2, Model: "m"})
	a, b := lanFellow(t, 5, served("left", engine.URL(), 2)), lanFellow(t, 6, served("right", engine.URL(), 2))
	a.here(t)
	leave := b.here(t)
	for _, f := range []*fellow{a, b} {
		holds(t, f.name+" has its place", f.placed)
	}
	a.setAlias(t, "coder", "left")
	b.setAlias(t, "coder", "right")
	b.setAlias(t, "only-b", "right")
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	b.seeds = []string{a.seed()}
	b.here(t)
	both := []*fellow{a, b}
	took := holds(t, "they agree", func() bool {
		target := a.alias("coder").Target
		return target != "" && lead(both, "coder", target)() && lead(both, "only-b", "right")() && a.sees("right") == 1
	})
	t.Logf("agreed %v after the second began to look for the first: coder leads to %s", took.Round(time.Millisecond), a.alias("coder").Target)
	a.setAlias(t, "coder", "left")
	holds(t, "what is set afterwards holds", lead(both, "coder", "left"))
}

// TestAliasRules: each that keeps a name from leading nowhere, in a circle or past a model.
func TestAliasRules(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 2, Model: "m"})
	f := lanFellow(t, 7, served("org/model", engine.URL(), 2), served("second", engine.URL(), 2))
	f.more = "aliases: {proposed: not-loaded-yet}\n"
	f.here(t)
	holds(t, "the node has its place", f.placed)
	if got := f.alias("proposed"); got.Version != 0 || got.Target != "not-loaded-yet" || got.Node != f.name || got.State != "dangling" {
		t.Errorf("proposed %+v", got)
	}
	set := func(name, target string) string {
		b, _ := json.Marshal(map[string]string{"name": name, "target": target})
		return string(b)
	}
	f.setAlias(t, "coder", "org/model")
	for _, c := range []struct {
		method, path, body string
		status             int
		code, says         string
	}{
		{"POST", "/api/aliases", set("x", "org/modle"), 404, "model_not_found", `"org/model"`},
		{"POST", "/api/aliases", set("x", "coder"), 409, "alias_of_alias", `point at "org/model"`},
		{"POST", "/api/aliases", set("x", "x"), 400, "invalid_alias", "itself"},
		{"POST", "/api/aliases", set("second", "org/model"), 409, "alias_is_model", `"second"`},
		{"POST", "/api/aliases", set("<script>", "second"), 400, "invalid_alias", "letters"},
		{"POST", "/api/aliases", set("a b", "second"), 400, "invalid_alias", "letters"},
		{"POST", "/api/aliases", set("x", ""), 400, "invalid_alias", "letters"},
		{"POST", "/api/aliases", set(strings.Repeat("x", 9000), "second"), 400, "invalid_json", "body"},
		{"POST", "/api/aliases", `{"name":1}`, 400, "invalid_json", "body"},
		{"POST", "/api/aliases/coder/revert", "", 409, "nothing_before", "before"},
		{"POST", "/api/aliases/codre/revert", "", 404, "alias_not_found", `"coder"`},
		{"POST", "/api/aliases/coder", "", 404, "not_found", ""},
		{"DELETE", "/api/aliases/codre", "", 404, "alias_not_found", `"coder"`},
		{"DELETE", "/api/aliases/%3Cb%3E", "", 404, "alias_not_found", "alias ls"},
	} {
		got := f.owner(t, c.method, c.path, c.body)
		var e struct {
			Error struct{ Code, Message string }
		}
		if json.Unmarshal([]byte(got.body), &e) != nil || got.status != c.status || e.Error.Code != c.code || !strings.Contains(e.Error.Message, c.says) {
			t.Errorf("%s %s %.60s: %d %s", c.method, c.path, c.body, got.status, got.body)
		}
	}
	if a := f.setAlias(t, "proposed", "second"); a.Version != 1 || a.Prev != "not-loaded-yet" {
		t.Errorf("%+v", a)
	}
}

// TestThousandAliases are what a mesh takes, and not one more.
func TestThousandAliases(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 2, Model: "m"})
	a, b := lanFellow(t, 8, served("m", engine.URL(), 2)), lanFellow(t, 9)
	b.seeds = []string{a.seed()}
	var kept struct {
		Aliases []mesh.Alias `json:"aliases"`
	}
	for i := range mesh.MaxLivingAliases - 1 {
		kept.Aliases = append(kept.Aliases, mesh.Alias{Name: fmt.Sprint("name-", i), Target: "m", Version: 1, Node: "somebody", At: 1})
	}
	file, _ := json.Marshal(kept)
	if err := errors.Join(os.Mkdir(filepath.Join(a.dir, "state"), 0o700), os.WriteFile(filepath.Join(a.dir, "state", "aliases.json"), file, 0o600)); err != nil {
		t.Fatal(err)
	}
	a.here(t)
	b.here(t)
	holds(t, "both see the model", func() bool { return a.sees("m") == 1 && b.sees("m") == 1 })
	last := fmt.Sprint("name-", mesh.MaxLivingAliases-1)
	a.setAlias(t, last, "m")
	got := a.owner(t, "POST", "/api/aliases", `{"name":"one-more","target":"m"}`)
	if got.status != 409 || !strings.Contains(got.body, "viiwork alias rm") {
		t.Errorf("one more: %d %s", got.status, got.body)
	}
	t.Logf("the other has them %v later", holds(t, "the other has them", lead([]*fellow{b}, last, "m")).Round(time.Millisecond))
	if b.alias("name-7").Node != "somebody" {
		t.Errorf("%+v", b.alias("name-7"))
	}
	if got := b.chat("", question(last, "hello", 4, false)); !got.complete(false) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestWhoMayChangeAliases: the machine's own commands and, in a secured mesh, its members; nobody else, and nothing that
// was altered on its way.
func TestWhoMayChangeAliases(t *testing.T) {
	t.Parallel()
	engine := fakeEngine(t, enginetest.Options{Slots: 2, Model: "m"})
	for i, secret := range []string{rightSecret, ""} {
		f := lanFellow(t, 10+i, served("m", engine.URL(), 2))
		f.secret = secret
		f.here(t)
		holds(t, "it has its place", f.placed)
		f.setAlias(t, "first", "m")
		right, _ := mesh.NewKeys(mesh.KeyConfig{Secret: []byte("01234567890123456789012345678901")})
		wrong, _ := mesh.NewKeys(mesh.KeyConfig{Secret: []byte("11234567890123456789012345678901")})
		open, _ := mesh.NewKeys(mesh.KeyConfig{})
		for name, c := range map[string]struct {
			keys           *mesh.Keys
			signed         string
			secured, opens int
		}{
			"a stranger":      {nil, "", 403, 403},
			"a member":        {&right, `{"name":"x","target":"m"}`, 200, 403},
			"another secret":  {&wrong, `{"name":"x","target":"m"}`, 403, 403},
			"an open member":  {&open, `{"name":"x","target":"m"}`, 403, 403},
			"an altered body": {&right, `{"name":"y","target":"m"}`, 403, 403},
		} {
			req, _ := http.NewRequest("POST", f.url()+"/api/aliases", strings.NewReader(`{"name":"x","target":"m"}`))
			if c.keys != nil {
				mesh.NewSigner(mesh.SignerConfig{ID: "somebody", Keys: mesh.NewKeyring(*c.keys)}).Sign(req, f.id(t), sha256.Sum256([]byte(c.signed)))
			}
			resp, err := quick.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			want := c.secured
			if secret == "" {
				want = c.opens
			}
			if resp.StatusCode != want {
				t.Errorf("%s, secret %q: %d, want %d", name, secret, resp.StatusCode, want)
			}
			if name == "a member" && want == 200 {
				if a := f.alias("x"); a.Target != "m" {
					t.Errorf("%+v", a)
				}
				f.owner(t, "DELETE", "/api/aliases/x", "")
			} else if a := f.alias("x"); a.Name != "" {
				t.Errorf("%s set it: %+v", name, a)
			}
		}
		for _, c := range [][2]string{{"DELETE", "/api/aliases/first"}, {"POST", "/api/aliases/first/revert"}} {
			req := &http.Request{Method: c[0], URL: &url.URL{Scheme: "http", Host: strings.TrimPrefix(f.url(), "http://"), Path: c[1]}}
			if resp, err := quick.Do(req); err != nil || resp.StatusCode != 403 {
				t.Errorf("%v: %v %v", c, resp, err)
			} else {
				resp.Body.Close()
			}
		}
	}
}

// id is the node's on a lan.
func (f *fellow) id(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "state", "tsnode", "id"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestConfiguredAliasesAreThoseTheMeshTakes: one that the configuration let through and the mesh did not take would be
// missing without a word.
func TestConfiguredAliasesAreThoseTheMeshTakes(t *testing.T) {
	long := strings.Repeat("a", 200)
	for _, c := range [][2]string{
		{"coder", "org/m"}, {"a", "a"}, {"A.b_c:d/e@f+g-h", "org/m"}, {long, "m"}, {long + "a", "m"}, {"-a", "m"}, {"a b", "m"}, {"ä", "m"}, {"<b>", "m"},
		{"a", ""}, {"a", long}, {"a", long + "a"}, {"a", " m"}, {"a", "m "}, {"a", "m m"}, {"a", "ä"}, {"a", "m\u202em"}, {"a", "m\u00a0m"}, {"a", "m\x1b[31m"},
	} {
		text, err := json.Marshal(map[string]any{"mesh": map[string]bool{"open": true}, "aliases": map[string]string{c[0]: c[1]}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = config.Parse("viiwork.yaml", text, nil)
		if refused := mesh.CheckAlias(c[0], c[1]) != nil; (err != nil) != refused {
			t.Errorf("%q to %q: the configuration says %v, the mesh refuses it: %t", c[0], c[1], err, refused)
		}
	}
}

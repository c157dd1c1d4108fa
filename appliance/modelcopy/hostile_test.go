package modelcopy_test

import (
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

	"viiwork/appliance/mesh"
	"viiwork/appliance/modelcopy"
)

// changed gives the giver's list to a test before it goes out.
func (g *giver) changed(change func(list map[string]any, files []any)) {
	g.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != modelcopy.ListPath {
			return false
		}
		sum, _ := digestOf(r.Context(), []string{filepath.Join(g.dir, "sub/m.gguf")})
		f := map[string]any{"name": "m.gguf", "size": 100, "digest": sum, "tag": strings.Repeat("0", 32)}
		files := []any{f}
		list := map[string]any{"model": "org/m", "digest": sum, "files": files}
		change(list, files)
		text, _ := json.Marshal(list)
		g.signed(w, r, text)
		return true
	}
}

func TestAHostileListLeadsNowhere(t *testing.T) {
	set := func(key string, v any) func(map[string]any, []any) {
		return func(_ map[string]any, files []any) { files[0].(map[string]any)[key] = v }
	}
	for name, change := range map[string]func(list map[string]any, files []any){
		"a path":        set("name", "../m.gguf"),
		"a whole path":  set("name", "/etc/m.gguf"),
		"a backslash":   set("name", `..\m.gguf`),
		"a hidden file": set("name", ".m.gguf"),
		"a flag":        set("name", "-m.gguf"),
		"no model":      set("name", "authorized_keys"),
		"a control":     set("name", "m\x1b[2J.gguf"),
		"a long name":   set("name", strings.Repeat("m", 300)+".gguf"),
		"a size":        set("size", int64(1)<<60),
		"no size":       set("size", 0),
		"less":          set("size", -1),
		"no digest":     set("digest", "v1:"),
		"no tag":        set("tag", "../../x"),
		"a projector":   set("mmproj", true),
		"no files":      func(l map[string]any, _ []any) { l["files"] = []any{} },
		"one twice":     func(l map[string]any, f []any) { l["files"] = []any{f[0], f[0]} },
		"many":          func(l map[string]any, f []any) { l["files"] = make([]any, 5000) },
		"other parts": func(l map[string]any, f []any) {
			l["files"] = []any{f[0], map[string]any{"name": "n.gguf", "size": 1, "digest": l["digest"], "tag": strings.Repeat("0", 32)}}
		},
		"much": func(l map[string]any, _ []any) { l["model"] = strings.Repeat("m", 2<<20) },
	} {
		g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
		g.changed(change)
		a := newAsker(t, g)
		if _, err := a.pull(t.Context()); err == nil {
			t.Errorf("%s: it was believed", name)
		}
		a.holds()
	}
}

// What is not signed by the member, is too short or too long, is not written; other bytes are known by their sum.
func TestALyingMemberLeavesNoFile(t *testing.T) {
	for name, lie := range map[string]struct {
		path string
		body func(g *giver, w http.ResponseWriter, r *http.Request)
		left []string
	}{
		"unsigned": {modelcopy.PiecePath, func(_ *giver, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100)) },
			[]string{"m.gguf.part", "m.gguf.part.json"}},
		"short": {modelcopy.PiecePath, func(g *giver, w http.ResponseWriter, r *http.Request) { g.signed(w, r, make([]byte, 99)) },
			[]string{"m.gguf.part", "m.gguf.part.json"}},
		"endless": {modelcopy.PiecePath, func(g *giver, w http.ResponseWriter, r *http.Request) { g.signed(w, r, make([]byte, 9<<20)) },
			[]string{"m.gguf.part", "m.gguf.part.json"}},
		"other bytes": {modelcopy.PiecePath, func(g *giver, w http.ResponseWriter, r *http.Request) { g.signed(w, r, make([]byte, 100)) }, nil},
		"another sum": {modelcopy.SumPath, func(g *giver, w http.ResponseWriter, r *http.Request) {
			g.signed(w, r, []byte(`{"sha256":"`+strings.Repeat("0", 64)+`"}`))
		}, nil},
		"no sum": {modelcopy.SumPath, func(g *giver, w http.ResponseWriter, r *http.Request) { g.signed(w, r, []byte(`{"sha256":"../x"}`)) },
			[]string{"m.gguf.part", "m.gguf.part.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
			g.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != lie.path {
					return false
				}
				lie.body(g, w, r)
				return true
			}
			a := newAsker(t, g)
			if _, err := a.pull(t.Context()); err == nil {
				t.Error("it was believed")
			}
			a.holds(lie.left...)
		})
	}
}

// A model whose parts are right one by one, and that is not what the mesh knows by this digest, is none.
func TestAModelOfAnotherDigestIsThrownAway(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
	g.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != modelcopy.ListPath {
			return false
		}
		info, _ := os.Stat(filepath.Join(g.dir, "sub/m.gguf"))
		sum, _ := digestOf(r.Context(), []string{filepath.Join(g.dir, "sub/m.gguf")})
		list := fmt.Sprintf(`{"model":"org/m","digest":"v1:%s","files":[{"name":"m.gguf","size":100,"digest":%q,"tag":%q}]}`, strings.Repeat("0", 64), sum, modelcopy.TagOf(info))
		g.signed(w, r, []byte(list))
		return true
	}
	a := newAsker(t, g)
	if _, err := a.pull(t.Context()); err == nil || !strings.Contains(err.Error(), "not the model") {
		t.Error(err)
	}
	a.holds()
}

// ask gets an answer of the giver as anybody may try to.
func (g *giver) ask(t *testing.T, c *mesh.Client, path string, q url.Values) (int, string) {
	t.Helper()
	resp, err := c.Get(t.Context(), g.member, path, q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text)
}

func TestStrangersGetNothing(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
	k, err := mesh.NewKeys(mesh.KeyConfig{Secret: []byte("another secret of thirty-two byte")[:32]})
	if err != nil {
		t.Fatal(err)
	}
	q := url.Values{"model": {"org/m"}}
	for name, c := range map[string]*mesh.Client{
		"another secret": clientOf(t, "asks", mesh.NewKeyring(k)),
		"no member":      clientOf(t, "else", g.keys),
	} {
		for _, path := range []string{modelcopy.ListPath, modelcopy.PiecePath, modelcopy.SumPath} {
			if code, text := g.ask(t, c, path, q); code != http.StatusForbidden || strings.Contains(text, "m.gguf") {
				t.Errorf("%s at %s: %d %s", name, path, code, text)
			}
		}
	}
	resp, err := http.Get(g.web.URL + modelcopy.ListPath + "?model=org/m")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("unsigned: %d", resp.StatusCode)
	}
	g.friend.Store(false)
	a := newAsker(t, g)
	if _, err := a.pull(t.Context()); err == nil || !strings.Contains(err.Error(), "members of the mesh only") {
		t.Error(err)
	}
}

// A member that asks for what there is not learns nothing, and gets no more than a piece at a time.
func TestAHostileAskerGetsNoOtherFile(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
	c := clientOf(t, "asks", g.keys)
	_, list := g.ask(t, c, modelcopy.ListPath, url.Values{"model": {"org/m"}})
	_, tag, _ := strings.Cut(list, `"tag":"`)
	tag = tag[:32]
	for _, q := range []string{
		"", "model=", "model=" + strings.Repeat("x", 1000), "model=..%2F..%2Fetc%2Fpasswd", "model=org/m", "model=org/m&file=0", "model=org/m&file=1&tag=" + tag,
		"model=org/m&file=-1&tag=" + tag, "model=org/m&file=x&tag=" + tag, "model=org/m&file=0&size=10&from=0&tag=" + strings.Repeat("0", 32),
		"model=org/m&file=0&size=10&from=100&tag=" + tag, "model=org/m&file=0&size=10&from=-1&tag=" + tag, "model=org/m&file=0&size=10&from=9223372036854775807&tag=" + tag,
		"model=org/m&file=0&from=0&tag=" + tag, "model=org/m&file=0&from=0&size=0&tag=" + tag, "model=org/m&file=0&from=0&size=4194305&tag=" + tag,
		"model=org/m&file=0&from=0&size=-1&tag=" + tag,
	} {
		v, _ := url.ParseQuery(q)
		if code, text := g.ask(t, c, modelcopy.PiecePath, v); code/100 != 4 {
			t.Errorf("%s: %d %.100s", q, code, text)
		}
	}
	if code, text := g.ask(t, c, modelcopy.PiecePath, url.Values{"model": {"org/m"}, "file": {"0"}, "from": {"90"}, "size": {"4194304"}, "tag": {tag}}); code != 200 || text != string(content("sub/m.gguf", 100)[90:]) {
		t.Errorf("a right one: %d %q", code, text)
	}
}

// Nothing outside of the folder is opened, and no pipe waited for.
func TestNothingOutsideOfTheFolderIsGiven(t *testing.T) {
	secretFile := filepath.Join(t.TempDir(), "outside.gguf")
	write(t, secretFile, []byte("outside"))
	for name, make := range map[string]func(dir string) (string, error){
		"a symlink out": func(dir string) (string, error) {
			return "l.gguf", os.Symlink(secretFile, filepath.Join(dir, "l.gguf"))
		},
		"a folder out": func(dir string) (string, error) {
			return "d/outside.gguf", os.Symlink(filepath.Dir(secretFile), filepath.Join(dir, "d"))
		},
		"dots":              func(dir string) (string, error) { rel, err := filepath.Rel(dir, secretFile); return rel, err },
		"a loop":            func(dir string) (string, error) { return "o.gguf", os.Symlink("o.gguf", filepath.Join(dir, "o.gguf")) },
		"a folder":          func(dir string) (string, error) { return "f.gguf", os.Mkdir(filepath.Join(dir, "f.gguf"), 0o700) },
		"a pipe":            func(dir string) (string, error) { return "p.gguf", modelcopy.Pipe(filepath.Join(dir, "p.gguf")) },
		"what is not there": func(string) (string, error) { return "n.gguf", nil },
	} {
		g := newGiver(t, nil, modelcopy.Source{})
		path, err := make(g.dir)
		if err != nil {
			t.Fatal(err)
		}
		g.src.Shards = []string{path}
		a := newAsker(t, g)
		if _, err := a.pull(t.Context()); err == nil {
			t.Errorf("%s was given away", name)
		}
		a.holds()
	}
}

// Of a node two copies go on at one time; a third waits for its turn, and is told so.
func TestTwoCopiesGoOnAtOneTime(t *testing.T) {
	var p modelcopy.Places
	if !p.Take("a") || !p.Take("b") || !p.Take("a") {
		t.Error("two did not find a place")
	}
	if p.Take("c") {
		t.Error("a third found one")
	}
	p.Give("a")
	if !p.Take("c") {
		t.Error("a place that was given back was not taken")
	}

	g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
	full := true
	g.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != modelcopy.PiecePath || !full {
			return false
		}
		full = false
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	a := newAsker(t, g)
	waited := false
	a.tell = func(p modelcopy.Progress) { waited = waited || p.State == modelcopy.StateWaiting }
	if _, err := a.pull(t.Context()); err != nil || !waited {
		t.Error(waited, err)
	}
}

// A member from before the first version with this is named as that.
func TestAnOldMemberIsNamed(t *testing.T) {
	g := newGiver(t, map[string]int{"sub/m.gguf": 100}, one)
	g.before = func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true }
	if _, err := newAsker(t, g).pull(t.Context()); err == nil || !strings.Contains(err.Error(), "update it") {
		t.Error(err)
	}
	g.before = nil
	a := newAsker(t, g)
	a.want.Model = "n"
	if _, err := a.pull(t.Context()); err == nil || !strings.Contains(err.Error(), "no model") {
		t.Error(err)
	}
	a.want.Model, a.want.Rate = "org/m", 1000
	var refused *modelcopy.Refused
	if _, err := a.pull(t.Context()); !errors.As(err, &refused) {
		t.Error(err)
	}
}

// FuzzReadList: whatever a member tells, what is believed writes only into the folder.
func FuzzReadList(f *testing.F) {
	f.Add([]byte(`{"model":"m","digest":"v1:` + strings.Repeat("0", 64) + `","files":[{"name":"m.gguf","size":1,"digest":"v1:` + strings.Repeat("0", 64) + `","tag":"` + strings.Repeat("0", 32) + `"}]}`))
	f.Add([]byte(`{"files":[{"name":"../m.gguf"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, as := range []string{"", "x.gguf", "x-00001-of-00001.gguf"} {
			names, sizes, err := modelcopy.ReadList(text, as)
			if err != nil {
				continue
			}
			all := int64(0)
			for i, name := range names {
				if filepath.Base(name) != name || !filepath.IsLocal(name) || !strings.HasSuffix(name, ".gguf") || sizes[i] <= 0 {
					t.Fatalf("%q of %d", name, sizes[i])
				}
				if all += sizes[i]; all < 0 {
					t.Fatal("more than there can be")
				}
			}
		}
	})
}

package appliance_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"viiwork/appliance/status"
	"viiwork/engine/enginetest"
)

// paths are the pages, and a script for each that is true once it shows what it is for.
var paths = []struct{ name, path, shows string }{
	{"home", "/", `rows("engines") == 2 && rows("requests") > 0 && rows("slots") == 6 && document.querySelector("#charts canvas")`},
	{"mesh", "/mesh", `rows("machines") == 3 && rows("slots") == 16 && rows("requests") > 0 && rows("firsts") > 0 && rows("cards") == 5 && said("out of date")`},
	{"models", "/models", `rows("models") == 2 && rows("engines") == 5 && said("coder")`},
	{"requests", "/requests", `rows("requests") > 10 && rows("uses") > 0 && said("warm") && said("attic itself")`},
	{"sessions", "/sessions", `document.querySelectorAll("#sessions tbody tr").length > 3`},
	{"kv", "/kv", `rows("moves") >= 3 && said("Too few turns")`},
	{"chat", "/chat", `document.querySelectorAll("#model option").length == 3`},
	{"logs", "/logs?model=Qwen3.8-27B", `said("did not start")`},
	{"aliases", "/aliases", `rows("aliases") == 1`},
}

// tools are what the scripts of these tests use. What lies outside the window is drawn, too: else it has no text and no width.
const tools = `document.adoptedStyleSheets = [new CSSStyleSheet()];
document.adoptedStyleSheets[0].replaceSync('section { content-visibility: visible; }');
window.rows = (kind) => document.querySelectorAll('[data-list="' + kind + '"] > [data-key]').length;
window.said = (text) => document.body.innerText.includes(text);`

// open goes to a page and waits until it shows what it is for.
func (b *browser) open(url, shows string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	eval[any](b, tools)
	b.comes(url+" shows "+shows, shows)
}

// TestEveryPageOfAMeshUnderLoad walks them in a real browser: they show what they are for, data moves, nothing is asked of
// anybody else, and the browser has nothing to complain of. At 1440 px and 360, dark and light, with labels and contrast.
func TestEveryPageOfAMeshUnderLoad(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := newBrowser(t)
	h.work(t, 16)
	b.size(1440, 900, true)
	at := h.all[0].url()
	holds(t, "turns have ended", func() bool {
		var board status.Board
		return h.all[0].read("/api/board", &board) && len(board.Requests) > 25 && len(board.Firsts) > 2
	})
	for _, p := range paths {
		b.open(at+p.path, p.shows)
		b.isUsable(p.name + ", dark, 1440 px")
	}
	b.open(at+"/mesh", `rows("requests") > 0`)
	before := eval[string](b, `document.querySelector('[data-list="requests"]').innerText`)
	b.comes("data moves", `document.querySelector('[data-list="requests"]').innerText != `+quote(before)+` && document.getElementById('live').dataset.v == 'live'`)
	b.comes("a task that looks like markup is shown as it is", `said("<img src=x")`)
	if eval[bool](b, `document.querySelectorAll('img').length > 0`) {
		t.Error("a task that looks like markup is taken for it")
	}
	const answered = `[...document.querySelectorAll('[data-only="!live"] > [data-key]')].find((r) => ` +
		`r.querySelector('[data-label="Entry"]').textContent.trim() == 'attic' && r.querySelector('[data-label="Status"]').textContent.trim() == '200')`
	b.open(at+"/requests", answered)
	b.do(chromedp.Navigate(at + eval[string](b, answered+`.querySelector('th a').getAttribute('href')`)))
	eval[any](b, tools)
	b.comes("why it went there", `said("Why this machine") && said("chosen") && said("By the policy cost")`)
	b.isUsable("a request")
	b.size(360, 780, false)
	for _, p := range paths {
		b.open(at+p.path, p.shows)
		b.isUsable(p.name + ", light, 360 px")
	}
	b.clean(at)
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// usable looks for what keeps people out: parts without a name, texts hard to read, a page that is too wide. It gives what it found.
const usable = `(() => {
  const found = [];
  const name = (e) => (e.getAttribute('aria-label') || e.textContent || '').trim() || [...(e.labels || [])].map((l) => l.textContent.trim()).join('') || e.title;
  for (const e of document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, meter')) if (!name(e)) found.push('no name: ' + e.outerHTML.slice(0, 120));
  for (const e of document.querySelectorAll('table')) if (!e.caption || e.querySelector('thead th:not([scope])')) found.push('a table without a caption, or a heading without scope');
  for (const e of document.querySelectorAll('[onclick], [style]:not(.uplot *):not(.chart *), [tabindex]:not([tabindex="0"]):not([tabindex="-1"])')) found.push('inline: ' + e.outerHTML.slice(0, 120));
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  if (new Set(ids).size != ids.length) found.push('an id twice');
  if (!document.documentElement.lang || document.querySelectorAll('h1').length != 1 || !document.querySelector('main') || !document.title) found.push('no language, heading, main part or title');
  if (document.documentElement.scrollWidth > innerWidth) found.push('too wide: ' + document.documentElement.scrollWidth);
  const rgb = (c) => (c.match(/[\d.]+/g) || []).map(Number);
  const shade = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length && (c.length < 4 || c[3] > 0)) return c; } return [255, 255, 255]; };
  const pale = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (!n.textContent.trim() || !e.offsetParent || e.closest('.sr, .skip, :disabled, noscript, option')) continue;
    const [a, b] = [shade(rgb(getComputedStyle(e).color)), shade(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) pale.add(ratio.toFixed(2) + ': ' + e.className + ' ' + n.textContent.trim().slice(0, 30));
  }
  return [...found, ...pale];
})()`

func (b *browser) isUsable(where string) {
	b.t.Helper()
	for _, f := range eval[[]string](b, usable) {
		b.t.Errorf("%s: %s", where, f)
	}
}

// TestOwnersActFromAnyPage by keyboard alone: a request is cancelled that came in and runs elsewhere, an alias is set for the whole mesh.
func TestOwnersActFromAnyPage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := newBrowser(t)
	b.size(1440, 900, false)
	at := h.all[0].url()
	ended := make(chan said, 1)
	go func() {
		ended <- h.all[2].chat("?host=desk", question("Qwen3.8-27B", "without end", 1<<16, true), "X-Viiwork-Task", "endless")
	}()
	b.open(at+"/requests", `said("endless") && said("generating")`)
	b.do(chromedp.KeyEvent("\t"))
	if got := eval[string](b, `document.activeElement.className`); got != "skip" {
		t.Errorf("the first key leads to %q", got)
	}
	eval[any](b, `[...document.querySelectorAll('[data-act="cancel"]')].find((e) => e.closest('tr')).focus()`)
	b.do(chromedp.KeyEvent("\r"))
	if got := <-ended; got.complete(true) || !strings.Contains(got.body, "request_cancelled") {
		t.Errorf("it went on: %d %.200s", got.status, got.body)
	}
	b.open(at+"/aliases", `document.querySelector('input[name="name"]')`)
	eval[any](b, `document.querySelector('input[name="name"]').focus()`)
	b.do(chromedp.KeyEvent("drafts\r"))
	holds(t, "the alias is known elsewhere", func() bool {
		var list []status.Alias
		return h.all[2].read("/api/aliases", &list) && len(list) == 2
	})
	b.comes("it is shown", `rows("aliases") == 2 && said("drafts")`)
	b.open(at+"/chat", `!document.getElementById('send').disabled`) // its script listens
	eval[any](b, `document.getElementById('text').focus()`)
	b.do(chromedp.KeyEvent("hello\r"))
	b.comes("an answer, and where from", `/on (attic|cellar|desk)/.test(document.querySelector('.talk .meta')?.textContent || '') && document.querySelector('.talk .theirs').textContent.length > 3`)
	b.clean(at)
}

// TestStrangersPagesChangeNothing: who has not the token, or comes from another origin, steers nothing; a page of ours does.
func TestStrangersPagesChangeNothing(t *testing.T) {
	t.Parallel()
	f := lanFellow(t, 0)
	f.more = "" // an open mesh
	f.here(t)
	_, page := fetch(t, f, http.MethodGet, "/", nil, "Accept", "text/html")
	token := regexp.MustCompile(`viiwork-token" content="([0-9a-f]{64})"`).FindStringSubmatch(page)
	if token == nil {
		t.Fatalf("the page has no token: %.300s", page)
	}
	if !strings.Contains(page, "Open mesh") {
		t.Error("nobody is told that the mesh is open")
	}
	own := f.url()
	form := url.Values{"token": {token[1]}, "off": {"false"}}.Encode()
	const asForm = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		what string
		body string
		want int
		head []string
	}{
		{"nobody", "{}", 403, nil},
		{"no token", "{}", 403, []string{"Origin", own}},
		{"a wrong token", "{}", 403, []string{"Origin", own, "X-Viiwork-Token", strings.Repeat("0", 64)}},
		{"no origin", "{}", 403, []string{"X-Viiwork-Token", token[1]}},
		{"another origin", "{}", 403, []string{"X-Viiwork-Token", token[1], "Origin", "http://evil.example"}},
		{"another site", "{}", 403, []string{"X-Viiwork-Token", token[1], "Origin", own, "Sec-Fetch-Site", "cross-site"}},
		{"another name", "{}", 421, []string{"X-Viiwork-Token", token[1], "Origin", own, "Host", "evil.example"}},
		{"a member's marks", "{}", 403, []string{"X-Viiwork-Token", token[1], "Origin", own, "X-Viiwork-From", "x"}},
		{"a form without token", "off=false", 403, []string{"Origin", own, "Content-Type", asForm}},
		{"a form of another origin", form, 403, []string{"Origin", "null", "Content-Type", asForm}},
		{"a form of ours", form, 303, []string{"Origin", own, "Content-Type", asForm}},
		{"a page of ours", `{"off":true}`, 200, []string{"X-Viiwork-Token", token[1], "Origin", own}},
	} {
		if code, body := fetch(t, f, http.MethodPost, "/api/drain", strings.NewReader(c.body), c.head...); code != c.want {
			t.Errorf("%s: %d, want %d: %.200s", c.what, code, c.want, body)
		}
	}
	if code, _ := fetch(t, f, http.MethodGet, "/api/logs", nil); code != 403 {
		t.Errorf("logs without a token: %d", code)
	}
	holds(t, "a stranger is not told what is for members", func() bool { // before it has its place in the mesh nobody is
		code, _ := fetch(t, f, http.MethodGet, "/v1/view", nil)
		return code == 403
	})
	if _, whole := fetch(t, f, http.MethodGet, "/", nil); !strings.Contains(whole, "<html") {
		t.Errorf("to who names no kind, / is %q", whole)
	}
	if _, plain := fetch(t, f, http.MethodGet, "/", nil, "Accept", "application/json"); !strings.HasPrefix(plain, "viiwork test on ") {
		t.Errorf("a program is told %.100s", plain)
	}
}

// TestPagesThatFollowLogsAreBounded: each holds a connection and the reading of a log, and anybody can open more.
func TestPagesThatFollowLogsAreBounded(t *testing.T) {
	f := lanFellow(t, 0)
	f.more = ""
	path := filepath.Join(f.dir, "m.gguf")
	if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{}); err != nil {
		t.Fatal(err)
	}
	f.models = []string{onDisk("m", path, "")}
	f.here(t)
	_, page := fetch(t, f, http.MethodGet, "/", nil, "Accept", "text/html")
	token := regexp.MustCompile(`viiwork-token" content="([0-9a-f]{64})"`).FindStringSubmatch(page)
	if token == nil {
		t.Fatalf("the page has no token: %.300s", page)
	}
	client := http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	follow := func() (*http.Response, error) {
		req, err := http.NewRequest(http.MethodGet, f.url()+"/api/logs?follow=1&model=m", nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("X-Viiwork-Token", token[1])
		return client.Do(req)
	}
	codes := map[int]int{}
	var open []*http.Response
	for range 70 {
		resp, err := follow()
		if err != nil {
			t.Fatal(err)
		}
		codes[resp.StatusCode]++
		open = append(open, resp)
	}
	if codes[200] != 64 || codes[503] != 6 {
		t.Errorf("of 70 pages %v", codes)
	}
	for _, resp := range open {
		resp.Body.Close()
	}
	holds(t, "there is room again", func() bool {
		resp, err := follow()
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
}

// fetch asks with headers by twos and follows nothing.
func fetch(t testing.TB, f *fellow, method, path string, body io.Reader, head ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, f.url()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(head); i += 2 {
		if head[i] == "Host" {
			req.Host = head[i+1]
		}
		req.Header.Set(head[i], head[i+1])
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestAMemberThatVanishesHasNoFigures: what it last said is not shown as if it were so still.
func TestAMemberThatVanishesHasNoFigures(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	gone := h.all[1]
	var board status.Board
	var m status.Machine
	find := func() bool {
		board = status.Board{}
		h.all[0].read("/api/board", &board)
		i := slices.IndexFunc(board.Machines, func(m status.Machine) bool { return m.Name == gone.name })
		if i < 0 || len(board.Totals) == 0 {
			return false
		}
		m = board.Machines[i]
		return true
	}
	holds(t, "all tell", func() bool { return find() && m.Told && board.Totals[0].Told == 3 })
	if m.Slots == nil || *m.Slots != 6 || board.Totals[0].Slots != 16 || board.Totals[0].Told != 3 {
		t.Errorf("%+v; %+v", m, board.Totals)
	}
	if err := h.leave[1](); err != nil {
		t.Error(err)
	}
	holds(t, "it is gone", func() bool { return find() && m.State == "left" })
	if m.Told || m.Slots != nil || m.Free != nil || m.Started != nil || board.Totals[0].Slots != 10 {
		t.Errorf("it still has figures: %+v, the mesh %+v", m, board.Totals)
	}
}

// TestScreens keeps pictures of the pages in the folder that VIIWORK_TEST_SCREENS names: 'make screens'.
func TestScreens(t *testing.T) {
	if screens() == "" {
		t.Skip("VIIWORK_TEST_SCREENS names no folder for pictures")
	}
	h := newHouse(t)
	h.work(t, 18)
	b := newBrowser(t)
	b.size(1440, 900, true)
	time.Sleep(75 * time.Second) // so that there is something to see
	at := h.all[0].url()
	for _, p := range paths {
		if p.name == "kv" {
			continue // it has its own
		}
		b.open(at+p.path, p.shows)
		time.Sleep(3 * time.Second)
		b.shoot(p.name)
		if p.name == "requests" {
			eval[any](b, `document.querySelector('[data-list="uses"]').closest('section').scrollIntoView()`)
			b.shoot("uses")
		}
	}
	b.open(at+"/requests", `document.querySelectorAll('[data-only="!live"] th a').length > 3`)
	cold := `(document.querySelector('[data-only="!live"] td[data-v="cold"]') || document.querySelector('[data-only="!live"] td')).closest('tr')`
	b.do(chromedp.Navigate(at + eval[string](b, `(`+cold+`).querySelector('a').getAttribute('href')`)))
	b.shoot("request")
	b.size(360, 780, false)
	for _, p := range paths[1:4] {
		b.open(at+p.path, p.shows)
		b.shoot(p.name + "-360")
	}
	b.clean(at)
}

// TestScreensOfCaches is the same of the page of caches, which takes engines that save and restore.
func TestScreensOfCaches(t *testing.T) {
	if screens() == "" {
		t.Skip("VIIWORK_TEST_SCREENS names no folder for pictures")
	}
	nodes, _ := kvMesh{nodes: 3, mode: "pull", program: enginetest.Program(t), args: `--fake-prefill-tps, "1000"`, names: []string{"attic", "cellar", "desk"}}.start(t)
	for i, name := range []string{"rover", "drifter", "nomad"} {
		m := newMover(name, 9000)
		for k := range 5 {
			m.turn(t, nodes[(i+k)%3])
			m.known(t, nodes)
		}
	}
	b := newBrowser(t)
	b.size(1440, 620, true)
	b.open(nodes[0].url()+"/kv", `rows("pairs") > 2 && rows("moves") == 3 && document.querySelector("#matrix")`)
	time.Sleep(2 * time.Second)
	b.do(chromedp.Reload())
	b.shoot("kv")
	b.isUsable("caches")
	b.clean(nodes[0].url())
}

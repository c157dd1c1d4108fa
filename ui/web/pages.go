package web

import (
	"bytes"
	"context"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"viiwork/appliance/status"
)

// view is what a page's template is given.
type view struct {
	Page  string // its name, and that of its template
	Title string
	Token string
	Board status.Board
	Now   time.Time
	rows  map[string][]row
	More  any // the page's own
	Gone  bool
	All   bool // long lists are wanted whole
}

// extra adds what only one page shows; false = there is no such thing.
type extra func(r *http.Request, v *view) bool

var titles = map[string]string{
	"home": "This node", "mesh": "Mesh", "models": "Models", "sessions": "Sessions", "requests": "Requests", "request": "Request", "kv": "Caches",
	"chat": "Chat", "logs": "Logs", "aliases": "Aliases",
}

// parsePages makes a template of each page with what all have in common. They are part of the program: a broken one is
// found by every test.
func parsePages() map[string]*template.Template {
	common := template.Must(template.New("").Funcs(functions).ParseFS(pageFiles, "pages/_*.html"))
	all := map[string]*template.Template{}
	for name := range titles {
		all[name] = template.Must(template.Must(common.Clone()).ParseFS(pageFiles, path.Join("pages", name+".html")))
	}
	return all
}

// page makes the handler of one page.
func (s *Site) page(name string, more extra) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), wanted)
		defer cancel()
		v := &view{Page: name, Title: titles[name], Token: s.cfg.Token, Board: s.cfg.Board(ctx), All: r.URL.Query().Has("all")}
		v.Now = time.Now() // the board may have taken its time
		v.rows = rowsOf(v.Board)
		code := http.StatusOK
		if more != nil && !more(r, v) {
			code, v.Gone = http.StatusNotFound, true
		}
		var out bytes.Buffer // whole, so that no half page is sent
		if err := s.pages[name].ExecuteTemplate(&out, "page", v); err != nil {
			s.cfg.Log.Error("a page could not be made", "page", name, "error", err)
			http.Error(w, "this page could not be made; the node's log says why", http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		_, _ = w.Write(out.Bytes())
	}
}

func (s *Site) request(r *http.Request, v *view) bool {
	row, ok := s.cfg.Request(r.Context(), r.PathValue("id"))
	if ok {
		v.Title = "Request " + shorten(row.ID)
		more := explained{Request: row, Priced: planOf(row.Plan)}
		for _, r := range v.rows["requests"] {
			if r["id"] == row.ID {
				more.Class, _ = r["class"].(string)
				more.WhyCold = whyCold(more)
			}
		}
		v.More = more
	}
	return ok
}

// mostSessions is how many the page has at most.
const mostSessions = 200

func (s *Site) sessions(_ *http.Request, v *view) bool {
	all := s.cfg.Sessions(mostSessions)
	v.More = struct {
		Rows  []status.Session
		Count int // of these and those that the page would have if it was asked for more
	}{atMost(all, v.Most()), len(all)}
	return true
}

// logTail is how many lines of an engine's log a page begins with, and maxLog how many bytes of them are shown.
const (
	logTail = 200
	maxLog  = 256 << 10
)

// logs is the page of one model's engine output.
type logs struct {
	Model string
	Text  string
	Fault string
}

func (s *Site) logs(r *http.Request, v *view) bool {
	page := logs{Model: r.URL.Query().Get("model")}
	v.More = &page
	if page.Model == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(r.Context(), wanted)
	defer cancel()
	var out tail
	if err := s.cfg.Logs(ctx, &out, page.Model, logTail); err != nil && ctx.Err() == nil {
		page.Fault = err.Error()
	}
	page.Text = out.String()
	return true
}

// tail keeps the last bytes written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxLog; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.kept), "\uFFFD") }

func writeJSON(w io.Writer, v any) {
	_ = json.NewEncoder(w).Encode(v) // who asked may have gone
}

package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// counterfeit is a desk for asks that are refused before they are one.
func counterfeit(t testing.TB) (*mesh.Desk[*loan], *loft, *mesh.Keyring) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	owner := newNode(t, member(9), k, nil)
	owner.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: owner.ID, Keys: k})
	owner.table = mesh.NewTable(0)
	l := newLoft(t, 8, 1, "a")
	return newDesk(owner, l), l, k
}

func TestWhatIsNoAskTakesNoSeat(t *testing.T) {
	desk, l, k := counterfeit(t)
	d := newDirect(t, desk, k, "n01")
	long := strings.Repeat("x", 201)
	post := func(body string) *http.Request { return d.request("POST", "/v1/lease", body) }
	forged := post(`{"model":"m"}`)
	forged.Body = io.NopCloser(strings.NewReader(`{"model":"n"}`))
	unsigned := post(`{"model":"m"}`)
	unsigned.Header = http.Header{}
	other := newDirect(t, desk, keys(t, mesh.KeyConfig{Secret: []byte("another secret of the same size.")}), "n01")
	twice := post(`{"model":"nothing"}`)
	<-d.serve(twice.Clone(context.Background())).done
	for name, c := range map[string]struct {
		r      *http.Request
		status int
		code   string
	}{
		"unsigned":             {unsigned, 403, "unsigned"},
		"another secret":       {other.request("POST", "/v1/lease", `{"model":"m"}`), 403, "bad_signature"},
		"sent twice":           {twice, 403, "replayed"},
		"another body":         {forged, 403, "body_digest"},
		"no JSON":              {post("hello"), 400, "bad_ask"},
		"nothing":              {post(""), 400, "bad_ask"},
		"null":                 {post("null"), 400, "bad_ask"},
		"two documents":        {post(`{"model":"m"}{"model":"m"}`), 400, "bad_ask"},
		"no model":             {post(`{}`), 400, "bad_ask"},
		"a model of a kind":    {post(`{"model":["m"]}`), 400, "bad_ask"},
		"a long model":         {post(`{"model":"` + long + `"}`), 400, "bad_ask"},
		"markup in a backend":  {post(`{"model":"m","backends":["\u001b[2J"]}`), 400, "bad_ask"},
		"an empty backend":     {post(`{"model":"m","backends":[""]}`), 400, "bad_ask"},
		"many backends":        {post(`{"model":"m","backends":[` + strings.Repeat(`"a",`, 64) + `"a"]}`), 400, "bad_ask"},
		"a long preference":    {post(`{"model":"m","prefer":"` + long + long + `"}`), 400, "bad_ask"},
		"a session of lines":   {post(`{"model":"m","session":"a\nb"}`), 400, "bad_ask"},
		"a wait in the past":   {post(`{"model":"m","wait_ms":-1}`), 400, "bad_ask"},
		"a wait without end":   {post(`{"model":"m","wait_ms":1e99}`), 400, "bad_ask"},
		"too large":            {post(`{"model":"m","x":"` + strings.Repeat("x", 16<<10) + `"}`), 413, "too_large"},
		"read":                 {d.request("GET", "/v1/lease", ""), 405, "method_not_allowed"},
		"asked at a lease":     {d.request("POST", "/v1/lease/AAAAAAAAAAAAAAAAAAAAAA", ""), 405, "method_not_allowed"},
		"no lease":             {d.request("DELETE", "/v1/lease/x", ""), 404, "lease_not_found"},
		"a lease that was not": {d.request("DELETE", "/v1/lease/AAAAAAAAAAAAAAAAAAAAAA", ""), 404, "lease_not_found"},
	} {
		a := d.serve(c.r)
		<-a.done
		if a.status() != c.status || !strings.Contains(a.body(), `"code":"`+c.code+`"`) || strings.Contains(a.body(), "xxx") {
			t.Errorf("%s: %d %s, want %d %s", name, a.status(), a.body(), c.status, c.code)
		}
		if _, claims := desk.Open(); claims != 0 {
			t.Fatalf("%s: %d claims are open", name, claims)
		}
	}
	if held, waiting := l.state(); held != 0 || waiting != 0 {
		t.Errorf("%d held, %d waiting", held, waiting)
	}
	for _, body := range []string{`{"model":"m","backends":null,"session":null}`, `{"model":"m","backends":[],"more":{"x":1},"wait_ms":0}`} {
		if a := d.serve(post(body)); true {
			<-a.done
			if a.lease() == "" {
				t.Errorf("%s: %d %s", body, a.status(), a.body())
			}
			<-d.serve(d.request("DELETE", "/v1/lease/"+a.lease(), "")).done
		}
	}
}

// TestAskerWhoTakesNothingIsCutOff: its place is given up once nothing can be written to it.
func TestAskerWhoTakesNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk, l, k := counterfeit(t)
		d := newDirect(t, desk, k, "n01")
		d.post(`{"model":"m"}`)
		waits := d.begin(`{"model":"m","wait_ms":60000}`)
		waits.mu.Lock()
		waits.deaf = true
		waits.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if _, waiting := l.state(); !waits.ended() || waiting != 0 {
			t.Errorf("ended: %v, %d wait", waits.ended(), waiting)
		}
	})
}

// TestGrantThatCannotBeHandedOverGoesOn: who asked is gone when the seat is there.
func TestGrantThatCannotBeHandedOverGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk, l, k := counterfeit(t)
		d := newDirect(t, desk, k, "n01")
		first := d.post(`{"model":"m"}`)
		gone, next := d.begin(`{"model":"m","wait_ms":60000}`), d.begin(`{"model":"m","wait_ms":60000}`)
		gone.mu.Lock()
		gone.deaf = true
		gone.mu.Unlock()
		d.serve(d.request("DELETE", "/v1/lease/"+first.lease(), ""))
		synctest.Wait()
		if !next.ended() || next.lease() == "" {
			t.Errorf("the next has %q", next.body())
		}
		if held, waiting := l.state(); held != 1 || waiting != 0 {
			t.Errorf("%d held, %d waiting", held, waiting)
		}
	})
}

// sayLines, sayDocument and sayNoMore are owners that answer an ask with a stream, with one text, and with nothing after a text.
func sayLines(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
}

func sayDocument(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func sayNoMore(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the asker goes
		if text != "" {
			sayLines(text)(w, r)
		}
		<-r.Context().Done()
	}
}

// TestOwnersAnswerIsBounded: what an owner may say that is none, or a hostile one.
func TestOwnersAnswerIsBounded(t *testing.T) {
	const id = "AAAAAAAAAAAAAAAAAAAAAA"
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"a seat":               {sayDocument(200, `{"lease":"`+id+`","backend":"a"}`), "seat"},
		"a seat in the end":    {sayLines(`{"ahead":1,"expect_ms":5}` + "\n" + `{"ahead":0}` + "\n" + `{"lease":"` + id + `","backend":"a"}`), "seat"},
		"no JSON":              {sayDocument(200, "hello"), "broke off"},
		"a short lease":        {sayDocument(200, `{"lease":"AAAA","backend":"a"}`), "broke off"},
		"no backend":           {sayDocument(200, `{"lease":"`+id+`"}`), "broke off"},
		"control codes":        {sayDocument(200, `{"lease":"`+id+`","backend":"\u001b[2J"}`), "broke off"},
		"an endless document":  {sayDocument(200, `{"lease":"`+id+`","backend":"`+strings.Repeat("a", 1<<20)+`"}`), "broke off"},
		"a negative place":     {sayLines(`{"ahead":-1}` + "\n"), "broke off"},
		"a place beyond all":   {sayLines(`{"ahead":1e300}` + "\n"), "broke off"},
		"an empty line":        {sayLines("\n"), "broke off"},
		"an empty object":      {sayLines("{}\n"), "broke off"},
		"an endless line":      {sayLines(strings.Repeat("x", 1<<20)), "broke off"},
		"an early end":         {sayLines(`{"ahead":1}` + "\n"), "broke off"},
		"silence":              {sayNoMore(""), "silent"},
		"silence in the line":  {sayNoMore(`{"ahead":1}` + "\n"), "silent"},
		"an unknown route":     {sayDocument(404, "nothing here"), "404 "},
		"a refusal":            {sayDocument(429, `{"error":{"message":"full","code":"node_full"}}`), "429 node_full"},
		"a refusal in the end": {sayLines(`{"ahead":1}` + "\n" + `{"refused":{"code":"draining","message":"x","status":503}}`), "503 draining"},
		"a refusal that is no": {sayLines(`{"refused":{"code":"\u001b","message":"` + strings.Repeat("x", 2000) + `","status":200,"retry_after_ms":-5}}`), "502 "},
		"a redirect":           {sayDocument(307, `{}`), "502 "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := rogue(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/v1/lease" {
						http.Error(w, "no", http.StatusServiceUnavailable)
						return
					}
					c.h(w, r)
				})
				begin := time.Now()
				g, err := a.client.AskSeat(t.Context(), member(2), mesh.Ask{Model: "m", WaitMS: minute}, nil)
				got := "seat"
				var refused *mesh.SeatRefused
				switch {
				case errors.As(err, &refused):
					got = fmt.Sprintf("%d %s", refused.Status, refused.Code)
					if refused.Error() == "" || len(refused.Message) > 1000 || refused.RetryAfter < 0 {
						t.Errorf("it says %+v", refused)
					}
				case errors.Is(err, mesh.ErrSilent):
					got = "silent"
					if took := time.Since(begin); took < 2500*time.Millisecond || took > 4*time.Second {
						t.Errorf("given up after %v", took)
					}
				case err != nil:
					got = "broke off"
				}
				if got != c.want || (err == nil) != (g.ID == id && g.Backend == "a") {
					t.Errorf("%s (%+v, %v), want %s", got, g, err, c.want)
				}
			})
		})
	}
}

// TestAnOwnerMayNotMakeWaitWhoDoesNotWait: the request has a place elsewhere, or another node to ask.
func TestAnOwnerMayNotMakeWaitWhoDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := rogue(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/lease" {
				http.Error(w, "no", http.StatusServiceUnavailable)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/x-ndjson")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, `{"ahead":0}`+"\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.client.AskSeat(ctx, member(2), mesh.Ask{Model: "m"}, nil); err == nil || ctx.Err() != nil {
			t.Errorf("%v", err)
		}
	})
}

func TestUnreachableOwnerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := pair(t, nil)
		if _, err := a.client.AskSeat(t.Context(), member(7), mesh.Ask{Model: "m"}, nil); !errors.Is(err, mesh.ErrUnreachable) {
			t.Errorf("asking: %v", err)
		}
		if err := a.client.ReturnSeat(t.Context(), member(7), "AAAAAAAAAAAAAAAAAAAAAA"); !errors.Is(err, mesh.ErrUnreachable) {
			t.Errorf("returning: %v", err)
		}
		if err := a.client.ReturnSeat(t.Context(), member(2), "../capacity"); err == nil {
			t.Error("what is no lease was returned")
		}
	})
}

// FuzzAsk: whatever a member sends, its answer has a shape, and nothing of it stays.
func FuzzAsk(f *testing.F) {
	for _, body := range []string{
		`{"model":"m"}`, `{"model":"m","backends":["a"],"prefer":"a","session":"s","wait_ms":0}`, `{"model":"m","wait_ms":-1}`, `null`, `[]`, ``,
		`{"model":"\ud800"}`, `{"model":"m","backends":[null]}`, `{"wait_ms":1e3,"model":"m"}`, "{\"model\":\"\xff\"}",
	} {
		f.Add(body)
	}
	desk, l, k := counterfeit(f)
	d := newDirect(f, desk, k, "n01")
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 32<<10 {
			return
		}
		a := d.serve(d.request("POST", "/v1/lease", body))
		late := time.AfterFunc(time.Minute, a.leave) // it waits only if the one seat is not free, which it is
		<-a.done
		late.Stop()
		switch a.status() {
		case 200:
			if a.lease() == "" {
				t.Fatalf("%s", a.body())
			}
			<-d.serve(d.request("DELETE", "/v1/lease/"+a.lease(), "")).done
		case 400, 403, 404, 413, 429, 503:
			if a.lease() != "" || !strings.Contains(a.body(), `"error"`) {
				t.Fatalf("%d %s", a.status(), a.body())
			}
		default:
			t.Fatalf("%d %s", a.status(), a.body())
		}
		if held, waiting := l.state(); held != 0 || waiting != 0 {
			t.Fatalf("%d held, %d waiting", held, waiting)
		}
		if _, claims := desk.Open(); claims != 0 {
			t.Fatalf("%d claims are open", claims)
		}
	})
}

// FuzzStanding: whatever an owner says, it ends in a seat that can be one or in an error.
func FuzzStanding(f *testing.F) {
	f.Add(`{"ahead":1,"expect_ms":5200}` + "\n" + `{"lease":"AAAAAAAAAAAAAAAAAAAAAA","backend":"m#0"}` + "\n")
	f.Add(`{"refused":{"code":"queue_timeout","message":"m","status":429,"retry_after_ms":2000}}`)
	f.Add(`{"ahead":null}`)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // so that nothing is held back
	f.Fuzz(func(t *testing.T, text string) {
		g, err := mesh.ReadStanding(ctx, strings.NewReader(text))
		if err == nil && (len(g.ID) != 22 || g.Backend == "") {
			t.Fatalf("%+v", g)
		}
		var refused *mesh.SeatRefused
		if errors.As(err, &refused) && (refused.Status < 400 || refused.Status > 599 || refused.Message == "" || refused.RetryAfter < 0 || refused.RetryAfter > time.Hour) {
			t.Fatalf("%+v", refused)
		}
	})
}

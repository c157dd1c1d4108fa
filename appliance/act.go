package appliance

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/mesh"
)

const headToken = "X-Viiwork-Token"

// newToken is what this run's pages prove with that they are its pages.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// fromPage reports whether one of this node's own pages asks: it has the token and, where the browser names the page's
// origin, that is the node itself. An origin that api.cors allows is another one all the same: it may ask for answers, not steer.
func (a *Appliance) fromPage(r *http.Request, token string) bool {
	if subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) != 1 || mesh.FromMember(r) {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" { // no browser leaves it out where something is changed
		return r.Method == http.MethodGet
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
}

// mayCancel says who may end requests.
func (a *Appliance) mayCancel(r *http.Request) bool {
	if fromSocket(r) || a.fromPage(r, r.Header.Get(headToken)) {
		return true
	}
	f := a.mesh.current()
	if f == nil || !a.mesh.keys.Load().Secured() || !mesh.FromMember(r) {
		return false
	}
	_, err := f.verifier.Check(r)
	return err == nil
}

// owner lets the socket and the node's own pages through.
func (a *Appliance) owner(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r := c.Request(); !fromSocket(r) && !a.fromPage(r, r.Header.Get(headToken)) {
			return errNotAllowed
		}
		return next(c)
	}
}

// steered lets the socket and the node's own pages through, and reads the body. A form of a page without scripts leads back to it.
func (a *Appliance) steered(page string, next func(c echo.Context, body []byte) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		hurry(c)
		r := c.Request()
		token := r.Header.Get(headToken)
		form := isForm(r)
		if !fromSocket(r) && !form && !a.fromPage(r, token) {
			return errNotAllowed // before the body is read
		}
		body, err := smallBody(r.Body)
		if err != nil {
			return err
		}
		if fromSocket(r) || !form {
			return next(c, body)
		}
		if token, body = fromForm(body); !a.fromPage(r, token) {
			return errNotAllowed
		}
		return back(c, page, func(c echo.Context) error { return next(c, body) })
	}
}

// isForm tells what a page without scripts sends.
func isForm(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind == "application/x-www-form-urlencoded"
}

// fromForm reads a form of a page without scripts: its token, and the rest as the JSON that a script would have sent.
func fromForm(body []byte) (token string, doc []byte) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return "", nil
	}
	fields := map[string]any{}
	for name := range values {
		switch v := values.Get(name); {
		case name == "token":
			token = v
		case name == "off":
			fields[name] = v == "true"
		default:
			fields[name] = v
		}
	}
	doc, _ = json.Marshal(fields) // texts and booleans alone
	return token, doc
}

// back answers a form: what the handler says is not for people, so they are led to where they see what has become of it.
func back(c echo.Context, to string, act func(c echo.Context) error) error {
	real := c.Response()
	unseen := &unseen{header: http.Header{}}
	c.SetResponse(echo.NewResponse(unseen, c.Echo()))
	err := act(c)
	c.SetResponse(real)
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, to)
}

// unseen takes an answer that nobody reads.
type unseen struct {
	header http.Header
	bytes.Buffer
}

func (u *unseen) Header() http.Header { return u.header }
func (u *unseen) WriteHeader(int)     {}

// cancelElsewhere has the member end a request that came in or runs there. In an open mesh no member takes another's word.
func (a *Appliance) cancelElsewhere(ctx context.Context, id string) (cancelled, known bool) {
	f := a.mesh.current()
	if f == nil {
		return false, false
	}
	for node, t := range a.views.look(ctx) {
		for _, r := range t.Requests {
			if r.ID != id {
				continue
			}
			for _, m := range alive(f.cluster) {
				if m.ID == node {
					return a.cancelAt(ctx, f.client, m, id), true
				}
			}
		}
	}
	return false, false
}

func (a *Appliance) cancelAt(ctx context.Context, client *mesh.Client, m mesh.Member, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	resp, err := client.Post(ctx, m, "/api/requests/"+url.PathEscape(id)+"/cancel", nil)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var said struct{ Cancelled bool }
	return resp.StatusCode == http.StatusOK && json.NewDecoder(io.LimitReader(resp.Body, 4<<10)).Decode(&said) == nil && said.Cancelled
}

package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	// placeWithin is how long a question waits for its turn: less than any asker waits for its answer.
	placeWithin = 5 * time.Second
	maxNo       = 8 << 10 // bytes of a no
	maxNoText   = 300     // bytes of a member's own words that are shown

	// CodeNoMember is the code of a No that may pass: who has just started does not know yet who the members are.
	CodeNoMember = "not_a_member"
)

// ErrBusy is a member that gives as much away as it may: ask again in a while.
var ErrBusy = &No{http.StatusTooManyRequests, "busy", "it gives as much away as it may at one time"}

// GiveConfig is what a Giver is made of.
type GiveConfig struct {
	Verifier *Verifier
	Member   func(id string) bool // tells whether a living member of the mesh has the id
	Only     string               // what those are told who are no members
	AtOnce   int                  // questions that are answered at one time, with the bytes that are on their way; 0 = any number
	// Answer gives what was asked for, or returns an error and has given nothing. Only a *No is told in its own words.
	Answer func(*Asked) error
}

// Giver answers what members ask with GET, and nobody else.
type Giver struct {
	cfg    GiveConfig
	places chan struct{} // holds as many as are answered now
}

// NewGiver makes a Giver.
func NewGiver(c GiveConfig) *Giver { return &Giver{c, make(chan struct{}, c.AtOnce)} }

// No is an answer that is not what was asked for.
type No struct {
	Status  int    // of HTTP
	Code    string // for programs
	Message string // for people
}

func (n *No) Error() string { return n.Message }

// Is knows by their status [ErrBusy], and what is not there, [fs.ErrNotExist].
func (n *No) Is(target error) bool {
	return n.Status == http.StatusTooManyRequests && target == ErrBusy || n.Status == http.StatusNotFound && target == fs.ErrNotExist
}

// ServeHTTP asks who it is before it looks at the question.
func (g *Giver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, err := g.cfg.Verifier.Check(r)
	if err != nil {
		WriteRefusal(w, err)
		return
	}
	err = g.answer(&Asked{Request: r, Peer: peer, W: w})
	if err == nil {
		return
	}
	var no *No
	if !errors.As(err, &no) {
		no = &No{http.StatusInternalServerError, "failed", "it could not answer"}
	}
	WriteError(w, no.Status, no.Code, no.Message)
}

func (g *Giver) answer(a *Asked) error {
	switch {
	case !g.cfg.Member(a.Peer.ID):
		return &No{http.StatusForbidden, CodeNoMember, g.cfg.Only}
	case a.Method != http.MethodGet:
		a.W.Header().Set("Allow", http.MethodGet)
		return &No{http.StatusMethodNotAllowed, "method_not_allowed", "it is asked for with GET"}
	case g.cfg.AtOnce == 0:
		return g.cfg.Answer(a)
	}
	ctx, cancel := context.WithTimeout(a.Context(), placeWithin)
	defer cancel()
	select { // those who wait are let in as they came
	case g.places <- struct{}{}:
		defer func() { <-g.places }()
		return g.cfg.Answer(a)
	case <-ctx.Done():
		return ErrBusy
	}
}

// Asked is a member's question. It has passed the Verifier.
type Asked struct {
	*http.Request
	Peer Peer
	W    http.ResponseWriter // for headers of the answer
}

// Give answers with body, as [WriteSigned] does.
func (a *Asked) Give(body []byte) { WriteSigned(a.W, a.Request, a.Peer, body) }

// GiveJSON answers with v, signed.
func (a *Asked) GiveJSON(v any) error {
	body, err := json.Marshal(v)
	if err == nil {
		a.Give(body)
	}
	return err
}

// Piece is which bytes are asked for, by from and size. False = none that could be had, or more than most.
func (a *Asked) Piece(most int64) (from, size int64, ok bool) {
	q := a.URL.Query()
	from, err := strconv.ParseInt(q.Get("from"), 10, 64)
	size, odd := strconv.ParseInt(q.Get("size"), 10, 64)
	return from, size, err == nil && odd == nil && from >= 0 && size >= 1 && size <= most
}

// ReadGiven reads what a Giver answers: at most so many bytes that it has signed, or a *No.
func (c *Client) ReadGiven(resp *http.Response, most int64) ([]byte, error) {
	if resp.StatusCode == http.StatusOK {
		return c.ReadSigned(resp, most)
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxNo))
	var told struct {
		Error struct{ Code, Message string }
	}
	_ = json.Unmarshal(text, &told) // somebody else's error has no words
	no := &No{resp.StatusCode, told.Error.Code, oneLine(told.Error.Message)}
	if no.Message == "" {
		no.Message = "it answers " + strconv.Itoa(no.Status)
	}
	return nil, no
}

// oneLine is a member's own words in one line that drives no terminal.
func oneLine(text string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, text)
	if len(clean) > maxNoText {
		clean = strings.ToValidUTF8(clean[:maxNoText], "") + "…"
	}
	return clean
}

package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

const (
	lockPath = "/v1/lock"
	// maxLockBody bounds a message and an answer: a note, which JSON writes in base64, and the ids of all members.
	maxLockBody = maxNote*4/3 + maxMembers*(maxID+4) + 4<<10

	lockAsk  = "ask"  // how does it stand?
	lockTry  = "try"  // give me your voice
	lockNote = "note" // I hold it: take my note
	lockFree = "free" // I hold it no more
)

// lockMessage is what one member tells another about the lock. Whose it is says the signature.
type lockMessage struct {
	Step  string `json:"step"`
	Term  uint64 `json:"term,omitempty"`
	Name  string `json:"name,omitempty"` // of the sender
	Token string `json:"token,omitempty"`
	Note  note   `json:"note,omitzero"`
}

// lockAnswer is how the member stands after it.
type lockAnswer struct {
	OK     bool     `json:"ok"`
	Why    string   `json:"why,omitempty"`
	Term   uint64   `json:"term"`
	Owner  string   `json:"owner,omitempty"` // of its voice
	Name   string   `json:"name,omitempty"`
	Holds  bool     `json:"holds,omitempty"` // that one had a majority
	LeftMS int64    `json:"left_ms,omitempty"`
	Note   note     `json:"note"`
	Known  []string `json:"known"` // ids of everyone whose voice counts, as it sees it
}

// sound is for a message as it comes from a member.
func (m lockMessage) sound(term uint64) bool {
	return m.Term <= maxTerm && m.Term <= term+maxLeap && isText(m.Name) && len(m.Token) <= 64 && isText(m.Token) && m.Note.sound(m.Term) &&
		(m.Step == lockAsk || m.Step == lockFree || m.Term > 0 && m.Token != "" && m.Name != "") && (m.Step != lockNote || m.Note.Term == m.Term)
}

func (n note) sound(term uint64) bool {
	return n.Term <= term && n.Number <= maxTerm && len(n.Text) <= maxNote
}

// sound is for an answer as it comes from a member.
func (a lockAnswer) sound() bool {
	if a.Term > maxTerm || !isText(a.Why) || a.Owner != "" && !isID(a.Owner) || !isText(a.Name) || a.LeftMS < 0 ||
		a.LeftMS > lockLapse.Milliseconds() || !a.Note.sound(maxTerm) || len(a.Known) > maxMembers {
		return false
	}
	return !slices.ContainsFunc(a.Known, func(id string) bool { return !isID(id) })
}

// ServeHTTP answers POST /v1/lock. The answer is signed: one that was forged on the way could make two holders.
func (l *Lock) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	peer, err := l.cfg.Verifier.Check(req)
	switch {
	case err != nil:
		WriteRefusal(w, err)
		return
	case req.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		WriteError(w, http.StatusMethodNotAllowed, "method_not_allowed", "the lock is spoken of with POST")
		return
	case !l.cfg.Keys.Load().Secured():
		WriteError(w, http.StatusConflict, "not_secured", ErrLockOpen.Error())
		return
	}
	body, err := io.ReadAll(io.LimitReader(peer.VerifyBody(req.Body), maxLockBody+1))
	var m lockMessage
	switch {
	case len(body) > maxLockBody:
		WriteError(w, http.StatusRequestEntityTooLarge, "body_too_large", "no message about the lock is that long")
		return
	case err != nil || json.Unmarshal(body, &m) != nil:
		WriteError(w, http.StatusBadRequest, "bad_message", "the body is not the one that was signed, or no message about the lock")
		return
	}
	text, err := json.Marshal(l.take(peer.ID, m))
	if err != nil {
		WriteError(w, http.StatusInternalServerError, "internal_error", "the answer cannot be written")
		return
	}
	WriteSigned(w, req, peer, text)
}

// tell brings m one message; to this node itself it needs no way.
func (l *Lock) tell(ctx context.Context, m Member, msg lockMessage) (a lockAnswer, err error) {
	if m.ID == l.cfg.ID {
		return l.take(m.ID, msg), nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Patience)
	defer cancel()
	body, err := json.Marshal(msg)
	if err != nil {
		return a, fmt.Errorf("writing about the lock: %w", err)
	}
	resp, err := l.cfg.Client.Post(ctx, m, lockPath, body)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return a, errors.New("its viiwork knows of no lock: update it by itself")
	case http.StatusConflict:
		return a, errors.New("its mesh is open, or on its way to a secret (mesh.secret_enforce): bring it to full first")
	default:
		return a, fmt.Errorf("it answers %d", resp.StatusCode)
	}
	text, err := l.cfg.Client.ReadSigned(resp, maxLockBody)
	if err != nil {
		return a, err
	}
	if json.Unmarshal(text, &a) != nil || !a.sound() {
		return lockAnswer{}, errors.New("the answer makes no sense: update the older of the two nodes")
	}
	return a, nil
}

package mesh

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
)

const (
	secretPath = "/v1/secret"
	// maxSecretBody bounds a message and an answer about the secret: they hold two ids, two names and one secret.
	maxSecretBody = 8 << 10

	stepAsk    stage = "ask"    // how does the member stand?
	stepResume stage = "resume" // said of a run that finishes what another began; no message
	stepDrop   stage = "drop"   // back to the old secret: not all could be given the new one
)

// message is what one member tells another about the secret. The secret itself is sealed.
type message struct {
	Step       stage  `json:"step"` // ask, accept, use, done or drop
	Generation uint64 `json:"generation,omitempty"`
	Secret     string `json:"secret,omitempty"` // name of the new one
	By         string `json:"by,omitempty"`     // id of the node that began
	ByName     string `json:"by_name,omitempty"`
	Lead       string `json:"lead,omitempty"`   // names the run that brings it
	Sealed     []byte `json:"sealed,omitempty"` // with accept
}

// answer is how the member stands after it.
type answer struct {
	OK         bool   `json:"ok"`
	Why        string `json:"why,omitempty"`
	WaitMS     int64  `json:"wait_ms,omitempty"` // with settling
	Generation uint64 `json:"generation"`
	Stage      stage  `json:"stage"`
	By         string `json:"by,omitempty"`
	ByName     string `json:"by_name,omitempty"`
	Secret     string `json:"secret"`
	View       string `json:"view"`             // digest of who is alive, as the member sees it
	Sealed     []byte `json:"sealed,omitempty"` // to an ask: a secret that is not in use everywhere, under the old one
}

// ServeHTTP answers POST /v1/secret. The answer is signed, unlike others: one that was forged on the way could make the
// leader believe that a member has what it never got.
func (r *Rotation) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	v := r.cfg.Verifier
	peer, err := v.Check(req)
	switch {
	case err != nil:
		WriteRefusal(w, err)
		return
	case req.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		WriteError(w, http.StatusMethodNotAllowed, "method_not_allowed", "the secret is spoken of with POST")
		return
	}
	body, err := io.ReadAll(io.LimitReader(peer.VerifyBody(req.Body), maxSecretBody+1))
	var m message
	switch {
	case len(body) > maxSecretBody:
		WriteError(w, http.StatusRequestEntityTooLarge, "body_too_large", "no message about the secret is that long")
		return
	case err != nil || json.Unmarshal(body, &m) != nil:
		WriteError(w, http.StatusBadRequest, "bad_message", "the body is not the one that was signed, or no message about the secret")
		return
	}
	if m.Step != stepAsk && !r.cfg.Keys.Load().Secured() {
		WriteError(w, http.StatusConflict, "not_secured", "this node's mesh is open, or on its way to a secret: there is none to replace")
		return
	}
	// By the key that the request was signed with: what the sender knows, whatever this message makes rule here.
	key := peer.key
	text, err := json.Marshal(r.take(peer.ID, m))
	if err != nil {
		WriteError(w, http.StatusInternalServerError, "internal_error", "the answer cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(headerSignature, encoding.EncodeToString(answerSignature(key, req, text)))
	_, _ = w.Write(text) // the sender may have gone
}

// answerSignature proves to the sender of one request, named by its nonce, who answered and what.
func answerSignature(key []byte, req *http.Request, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range []string{"viiwork answer 1", req.Header.Get(headerFrom), req.Header.Get(headerTo), req.Header.Get(headerNonce), string(body)} {
		put(h, part)
	}
	return h.Sum(nil)
}

// tell brings m one message, signed with key, nil for the one that rules.
func (r *Rotation) tell(ctx context.Context, m Member, msg message, key []byte) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	if key == nil {
		key = r.cfg.Keys.Load().sign
	}
	body, err := json.Marshal(msg)
	if err != nil {
		return a, err
	}
	out := outgoing{method: http.MethodPost, url: url.URL{Path: secretPath}, header: http.Header{"Content-Type": {"application/json"}}, body: body, key: key}
	resp, err := r.cfg.Client.send(ctx, m, out)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxSecretBody+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return a, &secretRefusal{status: resp.StatusCode, code: resp.Header.Get(headerRefused)}
	case err != nil:
		return a, fmt.Errorf("reading the answer: %w", err)
	}
	sum := decode(resp.Header.Get(headerSignature), sha256.Size)
	if len(text) > maxSecretBody || sum == nil || !hmac.Equal(sum, answerSignature(key, resp.Request, text)) {
		return a, ErrForgedAnswer
	}
	if json.Unmarshal(text, &a) != nil || !a.sound() {
		return a, errors.New("the answer makes no sense: update the older of the two nodes")
	}
	return a, nil
}

// sound is for an answer as it comes from a member.
func (a answer) sound() bool {
	return isText(a.Why) && a.Generation <= maxGeneration && (a.Stage == stageAccept || a.Stage == stageUse || a.Stage == stageDone) &&
		(a.By == "" || isID(a.By)) && isText(a.ByName) && isText(a.Secret) && isText(a.View) && a.WaitMS >= 0
}

// secretRefusal is a member that did not let the message in.
type secretRefusal struct {
	status int
	code   string // of a 403
}

func (e *secretRefusal) Error() string {
	switch text := refusalText[e.code]; {
	case text != "":
		return "it refuses: " + text
	case e.status == http.StatusNotFound:
		return "its viiwork cannot replace the secret: update it"
	case e.status == http.StatusConflict:
		return "its mesh is open, or on its way to a secret (mesh.secret_enforce): bring it to full first"
	}
	return fmt.Sprintf("it answers %d", e.status)
}

// otherSecret reports whether err is a member that does not know the secret a message was signed with.
func otherSecret(err error) bool {
	var refused *secretRefusal
	return errors.As(err, &refused) && refused.code == codeSignature
}

// viewOf is a digest of who is alive, as the node id sees it.
func viewOf(id string, others []Member) string {
	ids := []string{id}
	for _, m := range others {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	h := sha256.New()
	for _, id := range slices.Compact(ids) {
		put(h, id)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

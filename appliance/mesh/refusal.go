package mesh

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Codes of refusals, as they stand in the header and the JSON body of a 403.
const (
	codeUnsigned  = "unsigned"
	codeMalformed = "malformed"
	codeSignature = "bad_signature"
	codeOpenMesh  = "open_mesh"
	codeReceiver  = "wrong_receiver"
	codeClock     = "clock"
	codeReplay    = "replayed"
	codeHops      = "two_hops"
	codeBusy      = "busy"
)

var refusalText = map[string]string{
	codeUnsigned:  "this is for members of the mesh: the request carries no member's signature",
	codeMalformed: "the signature's headers are incomplete or cannot be read",
	codeSignature: "the signature is not made with this mesh's secret: give every node the same one",
	codeOpenMesh:  "the request is signed as in an open mesh, and this one has a secret: set it on the sender, too",
	codeReceiver:  "the request was signed for another node",
	codeClock:     "the request's time is too far from this node's: set both clocks by NTP",
	codeReplay:    "a request with this nonce has been seen: sign each request anew",
	codeHops:      "the request has been forwarded once: it is not forwarded again",
	codeBusy:      "too many signed requests in a short time: try again in a minute",
}

// Refusal is a request that a Verifier turned away. Nothing of the request has run.
type Refusal struct {
	Code string        // unsigned, malformed, bad_signature, open_mesh, wrong_receiver, clock, replayed, two_hops or busy
	From string        // the sender's id, once its signature is known to be good
	Skew time.Duration // with clock: how far ahead of this node's clock the sender's is

	at, proof string // this node's time, and its signature for who signed well
}

func (r *Refusal) Error() string { return refusalText[r.Code] }

// SetHeaders adds what the sender needs to correct itself. Every refusal tells the time; only a sender that knows the
// secret gets it signed.
func (r *Refusal) SetHeaders(h http.Header) {
	h.Set(headerRefused, r.Code)
	if r.at != "" {
		h.Set(headerTime, r.at)
	}
	if r.proof != "" {
		h.Set(headerSignature, r.proof)
	}
}

// WriteRefusal answers 403 with err if it is a Refusal, and 403 without a reason if it is another error.
func WriteRefusal(w http.ResponseWriter, err error) {
	message, code := "the request is refused", "refused"
	var refused *Refusal
	if errors.As(err, &refused) {
		refused.SetHeaders(w.Header())
		message, code = refused.Error(), refused.Code
	}
	WriteError(w, http.StatusForbidden, code, message)
}

// WriteError answers in the shape the API has for errors.
func WriteError(w http.ResponseWriter, status int, code, message string) {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusForbidden:
		kind = "permission_error"
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status >= 500:
		kind = "server_error"
		if w.Header().Get("Retry-After") == "" {
			w.Header().Set("Retry-After", "1")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	body := map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code}}
	_ = json.NewEncoder(w).Encode(body) // the sender may have gone
}

package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"
)

// Wire is the version of the forms this node writes, WireOldest the oldest it understands. docs/mesh.md says what
// changed from one to the next.
const (
	Wire       = 2
	WireOldest = 1
)

// Bounds of a report. What passes them is not believed at all.
const (
	maxMembers  = 1024
	maxReport   = 256 << 10 // bytes of JSON
	maxModels   = 256
	maxBackends = 64 // of one model
	maxSlots    = 1024
	maxText     = 200 // bytes of a name, a version, an id or a digest
	maxCount    = 1 << 30
	maxRate     = 1e7 // tokens a second
)

// Report is a node's capacity as it tells it. Its slices are read, never changed.
type Report struct {
	Wire     int     `json:"wire"`
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	Version  string  `json:"version"`
	Epoch    uint64  `json:"epoch"` // one for each run of the node
	Seq      uint64  `json:"seq"`   // grows with every change in an epoch
	Draining bool    `json:"draining"`
	Session  []byte  `json:"session_key,omitempty"` // the key of sessions, sealed
	Models   []Model `json:"models"`
}

// Model is what a node can do for one model.
type Model struct {
	Name     string    `json:"name"`
	Digest   string    `json:"digest,omitempty"`        // of the model file, "" = unknown
	Context  int       `json:"context"`                 // tokens per slot, 0 = unknown
	Waiting  int       `json:"waiting"`                 // requests in the line
	HoldMS   int64     `json:"hold_ms"`                 // how long a request takes a slot as a rule, 0 = unknown
	WaitMS   *int64    `json:"wait_ms"`                 // how long one more would wait for a slot, nil = unknown
	Score    float64   `json:"score,omitempty"`         // seconds from a request's start to its first token, per prompt token; 0 = unknown
	Output   float64   `json:"output_tokens,omitempty"` // of an answer, in the mean; 0 = unknown
	ThinkMS  int64     `json:"think_ms,omitempty"`      // from an answer to the conversation's next request, in the mean; 0 = unknown
	KV       *KV       `json:"kv,omitempty"`            // what moving its conversations' caches takes; nil = they are not moved
	Backends []Backend `json:"backends"`
}

// KV is what moving the caches of a model takes at a node. Zero is unknown.
type KV struct {
	Kind        string  `json:"kind"` // only between nodes of one kind can they be moved
	TokenBytes  float64 `json:"token_bytes,omitempty"`
	SaveBPS     float64 `json:"save_bps,omitempty"`   // bytes a second out of an engine,
	ImportBPS   float64 `json:"import_bps,omitempty"` // and into one
	ImportStart float64 `json:"import_s,omitempty"`   // seconds an import takes beside its bytes
	SendBPS     float64 `json:"send_bps,omitempty"`   // to other nodes
	SendingMS   int64   `json:"sending_ms,omitempty"` // until what it has to send is sent
	Fresh       bool    `json:"fresh,omitempty"`      // replicas are to be fresh at any time, and not only when a save pays for what they lack
}

// Backend is one engine.
type Backend struct {
	ID         string   `json:"id"`
	Slots      int      `json:"slots"`
	Free       int      `json:"free"`
	Ready      bool     `json:"ready"`
	Loading    bool     `json:"loading,omitempty"` // on its way to ready
	PrefillTPS *float64 `json:"prefill_tps"`       // tokens a second, nil = unknown
	DecodeTPS  *float64 `json:"decode_tps"`        // of a single stream, nil = unknown

	Slowdown float64 `json:"slowdown,omitempty"` // by what share a token takes longer for each further stream, 0 = unknown

	Waiting     int   `json:"waiting,omitempty"`     // requests in the line that accept no other backend
	Outstanding int   `json:"outstanding,omitempty"` // prompt tokens it still has to compute
	Decoding    int   `json:"decoding,omitempty"`    // streams it generates
	FreeInMS    int64 `json:"free_in_ms,omitempty"`  // until a slot frees, by guess; 0 = one is free, or unknown
	Residents   int   `json:"resident,omitempty"`    // conversations that were active there lately
	Idle        int   `json:"idle,omitempty"`        // those of them that no request runs for
}

// Slots counts the slots of all ready backends and the free ones among them.
func (m Model) Slots() (slots, free int) {
	for _, b := range m.Backends {
		if b.Ready {
			slots += b.Slots
			free += b.Free
		}
	}
	return slots, free
}

// model finds one by its name.
func (r *Report) model(name string) (Model, bool) {
	for _, m := range r.Models {
		if m.Name == name {
			return m, true
		}
	}
	return Model{}, false
}

func (r *Report) names() []string {
	names := make([]string, 0, len(r.Models))
	for _, m := range r.Models {
		names = append(names, m.Name)
	}
	return names
}

var errTooMuch = errors.New("reading a capacity report: there is more in it than any node has")

// check holds a report from a stranger against the bounds.
func (r *Report) check() error {
	if r.Wire < WireOldest || r.Wire > Wire {
		return &wireError{theirs: r.Wire}
	}
	if len(r.Models) > maxModels || len(r.Session) > maxSealed {
		return errTooMuch
	}
	if !isID(r.ID) || !isText(r.Name) || !isText(r.Version) {
		return errors.New("reading a capacity report: its node has no proper id, name or version")
	}
	seen := make(map[string]bool, len(r.Models))
	for _, m := range r.Models {
		if err := m.check(seen); err != nil {
			return err
		}
	}
	return nil
}

func (m Model) check(seen map[string]bool) error {
	if !isText(m.Name) || m.Name == "" || seen[m.Name] {
		return errors.New("reading a capacity report: a model has no name, or two have one")
	}
	seen[m.Name] = true
	if len(m.Backends) > maxBackends || !isText(m.Digest) || !isCount(m.Context) || !isCount(m.Waiting) ||
		m.ThinkMS < 0 || m.ThinkMS > maxCount || !isAmount(m.Score) || !isAmount(m.Output) ||
		m.HoldMS < 0 || m.HoldMS > maxCount || m.WaitMS != nil && (*m.WaitMS < 0 || *m.WaitMS > maxCount) || !m.KV.isSane() {
		return errTooMuch
	}
	ids := make(map[string]bool, len(m.Backends))
	for _, b := range m.Backends {
		switch {
		case !isBackendID(b.ID) || ids[b.ID]:
			return errors.New("reading a capacity report: a backend has no id, or two have one")
		case b.Slots < 0 || b.Slots > maxSlots || b.Free < 0 || b.Free > b.Slots || !isRate(b.PrefillTPS) || !isRate(b.DecodeTPS) || !b.busy():
			return errTooMuch
		}
		ids[b.ID] = true
	}
	return nil
}

// busy holds the figures of what a backend does against the bounds.
func (b *Backend) busy() bool {
	return isAmount(b.Slowdown) && isCount(b.Waiting) && isCount(b.Outstanding) && isCount(b.Decoding) && isCount(b.Residents) && isCount(b.Idle) &&
		b.FreeInMS >= 0 && b.FreeInMS <= maxCount
}

// maxBPS bounds what is believed of a rate in bytes a second.
const maxBPS = 1e13

func (k *KV) isSane() bool {
	if k == nil {
		return true
	}
	for _, v := range []float64{k.TokenBytes, k.SaveBPS, k.ImportBPS, k.SendBPS} {
		if !(v >= 0 && v <= maxBPS) {
			return false
		}
	}
	return k.Kind != "" && isText(k.Kind) && isAmount(k.ImportStart) && k.SendingMS >= 0 && k.SendingMS <= maxCount
}

// isAmount is false for NaN.
func isAmount(v float64) bool { return v >= 0 && v <= maxRate }

func isCount(n int) bool { return n >= 0 && n <= maxCount }

func isRate(r *float64) bool { return r == nil || *r >= 0 && *r <= maxRate && !math.IsNaN(*r) }

// isText keeps what could trouble a terminal or a page out of names that others will read.
func isText(s string) bool { return isPrintable(s, maxText) }

// isBackendID allows the name of its model with a number.
func isBackendID(s string) bool { return s != "" && isPrintable(s, maxText+8) }

func isPrintable(s string, most int) bool {
	if len(s) > most || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// wireError is a member that speaks a version this node does not.
type wireError struct{ theirs int }

func (e *wireError) Error() string {
	return fmt.Sprintf("the member speaks version %d between nodes and this node %d to %d: update the older one", e.theirs, WireOldest, Wire)
}

// readReport decodes one report.
func readReport(data []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, errors.New("reading a capacity report: it is no JSON of the kind expected") // its bytes are a stranger's
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return &r, nil
}

package bench

import (
	"fmt"
	"time"
)

// KV says what moving a conversation's cache is to be measured on.
type KV struct {
	Entry  string        // base address, as ParseEntry makes it: all requests come in there
	Model  string        // or alias; "" = the first one that two nodes have
	Tokens []int         // of prompts; those that a slot has no room for are as long as it has
	Pairs  int           // of nodes, at most; from here to there and from there to here are two
	Pause  time.Duration // between the turns of a conversation, and before it begins

	Begun func(KVReport)             // nil = nobody wants to know; called once, with what there will be
	Next  func(p KVPair, tokens int) // nil = nobody wants to know; what is measured now
	Ended func(p KVPair, s KVSize)   // nil = nobody wants to know
}

// Bounds of what can be measured.
const (
	leastPrompt = 300 // a node saves nothing shorter than 256 tokens
	mostPrompt  = 1_000_000
	maxSizes    = 16
	maxHosts    = 64
	maxPairs    = maxHosts * (maxHosts - 1)
	maxPause    = 10 * time.Minute
)

// Validate says what of it cannot be.
func (k KV) Validate() error {
	if len(k.Tokens) < 1 || len(k.Tokens) > maxSizes {
		return fmt.Errorf("%d lengths of prompts cannot be measured: give 1 to %d", len(k.Tokens), maxSizes)
	}
	for _, n := range k.Tokens {
		if n < leastPrompt || n > mostPrompt {
			return fmt.Errorf("a prompt of %d tokens cannot be measured: give %d to %d", n, leastPrompt, mostPrompt)
		}
	}
	switch {
	case k.Pairs < 1 || k.Pairs > maxPairs:
		return fmt.Errorf("%d pairs cannot be measured: give 1 to %d", k.Pairs, maxPairs)
	case k.Pause < 0 || k.Pause > maxPause:
		return fmt.Errorf("a pause of %v cannot be: give one up to %v", k.Pause, maxPause)
	}
	return nil
}

// KVReport is what moving caches takes on a mesh, for people and scripts. Times are s where their names end so, else ms; what is
// not known is absent, counts of tokens that are not known are -1.
type KVReport struct {
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Model   string    `json:"model"`
	Entry   string    `json:"entry"`
	Context int       `json:"context"` // tokens of a slot, the least there is
	Cut     bool      `json:"interrupted"`
	Nodes   []KVNode  `json:"nodes"`
	Pairs   []KVPair  `json:"pairs"`
}

// KVNode is a node that has the model.
type KVNode struct {
	Node    string `json:"node"`
	Mode    string `json:"mode"`    // of its kv_share; "" = it does not tell from here
	Enabled bool   `json:"enabled"` // it moves this model's caches, as far as it tells
}

// KVPair is what was measured from one node to another.
type KVPair struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Verdict Verdict  `json:"verdict"`
	Pays    int      `json:"pays_from_tokens,omitempty"` // where Verdict is Pays or PaysAll
	Says    string   `json:"says"`
	Sizes   []KVSize `json:"sizes"`
}

// KVSize is one length of a prompt: a conversation that begins at From, goes to To and comes back, and another one that begins at
// To, as long as the first one is by then.
type KVSize struct {
	Planned int     `json:"planned_tokens"`
	Tokens  int     `json:"tokens"`      // of the turn that moved
	Begin   float64 `json:"cold_from_s"` // to the first token at From, computed from the beginning
	Cold    float64 `json:"cold_s"`      // at To
	Saved   float64 `json:"saved_s"`     // by moving: the difference to There
	There   KVMove  `json:"moved"`
	Back    KVMove  `json:"back"`
	Refused int     `json:"refused"` // tries
	Error   string  `json:"error,omitempty"`
}

// KVMove is a turn on another node than the one before.
type KVMove struct {
	TTFT   float64   `json:"ttft_s"`
	Prompt int       `json:"prompt_tokens"`
	Cached int       `json:"cached_tokens"`
	Class  string    `json:"class"`
	Route  string    `json:"route"`
	Save   *KVSave   `json:"save,omitempty"`
	Import *KVImport `json:"import,omitempty"`
}

// KVSave is what the node that had it did to save the conversation, its engine standing still; by that node's own count. Where
// there was more than one save in that time, it is the mean.
type KVSave struct {
	Saves int     `json:"saves"`
	MS    float64 `json:"ms"`
	Bytes int64   `json:"bytes"`
}

// KVImport is how the cache came, by the count of the node that it came to.
type KVImport struct {
	Fetch    float64  `json:"fetch_ms"`
	Assemble float64  `json:"assemble_ms"`
	Restore  float64  `json:"restore_ms"`
	Bytes    int64    `json:"bytes"`                 // that travelled
	Delta    *float64 `json:"delta_share,omitempty"` // of the state: the rest was there already
	Path     string   `json:"path"`
	Proved   bool     `json:"proved"` // the engine found in it what it should
	Failed   bool     `json:"failed"` // it did not come
}

// came tells whether a cache was brought to the turn.
func (m KVMove) came() bool { return m.Route == "pull" || m.Route == "import" }

// Told tells whether any of the nodes told what moving took them.
func (p KVPair) Told() bool {
	for _, s := range p.Sizes {
		if s.There.Save != nil || s.There.Import != nil {
			return true
		}
	}
	return false
}

// Measured reports whether there is a figure at all.
func (r KVReport) Measured() bool {
	for _, p := range r.Pairs {
		for _, s := range p.Sizes {
			if s.Error == "" {
				return true
			}
		}
	}
	return false
}

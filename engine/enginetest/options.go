package enginetest

import (
	"io"
	"time"
)

// Options shapes a fake server. The zero value is one slot of 8192 tokens, infinitely fast and without a key.
type Options struct {
	Slots   int    // 0 = 1
	Context int    // tokens per slot; 0 = 8192
	Model   string // the alias it answers with; "" = "tiny"
	Key     string // the API key it demands; "" = none

	PrefillTPS float64 // prompt tokens a second; 0 = infinitely fast
	DecodeTPS  float64 // generated tokens a second and slot; 0 = infinitely fast
	Batch      int     // prompt tokens computed between two looks at the world; 0 = 2048
	Speed      float64 // how many times faster than the wall clock its time runs; 0 = 1

	Reply       string // what it answers; "" = letters that depend on the whole prompt
	ReplyTokens int    // length of an answer that nothing else limits; 0 = 64

	PromptCache int    // conversations kept in host RAM beside the slots; 0 = none
	SaveDir     string // where slots are saved; "" = saving answers 501

	StateBytes  int     // KV bytes a token in a slot file, in all layers; 0 = 128
	StateLayers int     // layers in a slot file; 0 = 1
	SaveBPS     float64 // bytes a second saved or restored, while all else stands still; 0 = as fast as the disk

	LoadFor    time.Duration // answers 503 for so long after New
	Embeddings bool
	Rerank     bool
	NoMetrics  bool
	NoSlots    bool // GET /slots answers 501, as with --no-slots

	KeepRequests int       // how many of the last requests are remembered; 0 = 256
	KeepBodies   bool      // remember their bodies too
	Log          io.Writer // the program's own log lines; nil = none
}

const (
	defaultBatch   = 2048
	defaultContext = 8192

	// build is the version the shapes were taken from.
	build      = "b11669-Debian"
	versionOut = "version: 0.7.0 (build 11669, commit Debian)\nbuilt with GNU 16.2.0 for Linux x86_64\n"

	// bodyLimit bounds what a test can make the fake hold for one request.
	bodyLimit = 512 << 20
)

func (o Options) withDefaults() Options {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&o.Slots, 1)
	set(&o.Context, defaultContext)
	set(&o.Batch, defaultBatch)
	set(&o.ReplyTokens, 64)
	set(&o.StateBytes, 128)
	set(&o.StateLayers, 1)
	set(&o.KeepRequests, 256)
	if o.Model == "" {
		o.Model = "tiny"
	}
	if o.Speed <= 0 {
		o.Speed = 1
	}
	return o
}

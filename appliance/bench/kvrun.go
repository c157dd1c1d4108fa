package bench

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"viiwork/appliance/status"
)

// Of a measured conversation: what each answer has, what each later turn asks, and what all that comes to beside its first prompt.
const (
	kvAnswer = 16
	kvAsk    = 32
	extra    = 3*(kvAnswer+kvAsk) + 64
)

// kvRun is a measurement under way.
type kvRun struct {
	cfg    KV
	id     string
	model  string // by its own name
	client *client
	gauge  *gauge
	rng    *rand.Rand
	hosts  []host
	sizes  []int
	talks  int
	report KVReport
}

// Run measures until it has been everywhere or ctx ends, and reports what came of it. What runs then is broken off, and not
// counted. An error means that nothing could be measured; it is [ErrFewNodes] where there is nothing to move between.
func (k KV) Run(ctx context.Context) (KVReport, error) {
	if err := k.Validate(); err != nil {
		return KVReport{}, err
	}
	r := &kvRun{cfg: k, id: cryptorand.Text()[:10], client: newClient("bench kv"), rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	defer r.client.close()
	r.report = KVReport{Started: time.Now(), Entry: k.Entry, Nodes: []KVNode{}, Pairs: []KVPair{}}
	if err := r.survey(ctx); err != nil {
		if ctx.Err() != nil {
			return KVReport{}, context.Cause(ctx)
		}
		return KVReport{}, err
	}
	r.report.Model = name(r.model)
	r.gauge = r.client.weigh(ctx, k.Entry, r.rng)
	pairs := r.pairs()
	for _, p := range pairs {
		r.report.Pairs = append(r.report.Pairs, KVPair{From: r.hosts[p[0]].Node, To: r.hosts[p[1]].Node, Sizes: []KVSize{}})
	}
	if k.Begun != nil {
		k.Begun(r.report)
	}
	for i, p := range pairs {
		r.pair(ctx, &r.report.Pairs[i], p[0], p[1])
	}
	r.report.Cut = ctx.Err() != nil
	r.report.Seconds = time.Since(r.report.Started).Seconds()
	return r.report, nil
}

// pair measures all sizes from one host to another, and judges.
func (r *kvRun) pair(ctx context.Context, p *KVPair, from, to int) {
	off := ""
	for _, i := range []int{from, to} {
		if n := r.report.Nodes[i]; off == "" && !n.Enabled {
			off = "kv_share is off at " + n.Node
			if n.Mode != "off" {
				off = "kv_share has switched itself off for this model at " + n.Node
			}
		}
	}
	if off == "" {
		for _, tokens := range r.sizes {
			if ctx.Err() != nil {
				break
			}
			if r.cfg.Next != nil {
				r.cfg.Next(*p, tokens)
			}
			s := r.size(ctx, &r.hosts[from], &r.hosts[to], tokens)
			if ctx.Err() != nil {
				break // cut off by the end: it says nothing about the nodes
			}
			p.Sizes = append(p.Sizes, s)
			if r.cfg.Ended != nil {
				r.cfg.Ended(*p, s)
			}
		}
	}
	p.judge(off)
}

// size measures one length of a prompt.
func (r *kvRun) size(ctx context.Context, from, to *host, tokens int) KVSize {
	s := KVSize{Planned: tokens, Tokens: tokens, There: unmoved, Back: unmoved}
	if err := r.measure(ctx, &s, from, to); err != nil {
		s.Error = err.Error()
	}
	return s
}

// unmoved is a move of which nothing is known.
var unmoved = KVMove{Prompt: -1, Cached: -1, Class: Unknown.String()}

func (r *kvRun) measure(ctx context.Context, s *KVSize, from, to *host) error {
	// What was before is saved by then: it does not mix with what follows.
	if !sleep(ctx, r.cfg.Pause) {
		return context.Cause(ctx)
	}
	j := r.set(s)
	begun, err := j.turn(ctx, from, s.Planned)
	if err != nil {
		return err
	}
	s.Begin = begun.first.Seconds()
	if s.There, err = j.move(ctx, to); err != nil {
		return err
	}
	if s.There.Prompt > 0 {
		s.Tokens = s.There.Prompt
	}
	if s.Back, err = j.move(ctx, from); err != nil {
		return err
	}
	cold, err := r.set(s).turn(ctx, to, s.Tokens)
	if err != nil {
		return err
	}
	s.Cold = cold.first.Seconds()
	s.Saved = s.Cold - s.There.TTFT
	return nil
}

// journey is a conversation that goes from node to node.
type journey struct {
	*kvRun
	row  *KVSize
	key  string
	talk talk
	at   *host
	left status.KV // what the node it is at told when its turn had ended
	told bool
}

// set makes a new conversation, which begins like no other.
func (r *kvRun) set(s *KVSize) *journey {
	r.talks++
	return &journey{kvRun: r, row: s, key: fmt.Sprintf("bench-kv-%s-%d", r.id, r.talks), talk: talk{rng: r.rng, gauge: r.gauge}}
}

// turn has the node answer so many more tokens. A refusal is waited for as it says, and does not count for the time.
func (j *journey) turn(ctx context.Context, at *host, tokens int) (answer, error) {
	j.talk.say(tokens)
	for refused := 0; ; refused++ {
		got, err := j.client.ask(ctx, j.cfg.Entry, j.key, question{Model: j.client.model, Messages: j.talk.messages, Stream: true,
			StreamOptions: map[string]bool{"include_usage": true}, MaxTokens: kvAnswer, IgnoreEOS: true, host: at.Node})
		var no refusal
		if errors.As(err, &no) && no.busy() && refused < maxRefusals {
			j.row.Refused++
			if sleep(ctx, no.pause) {
				continue
			}
		}
		if err != nil {
			return got, err
		}
		if got.prompt > 0 {
			j.gauge.saw(j.talk.size, got.prompt)
		}
		j.talk.heard(got.text)
		j.at = at
		j.left, j.told = j.kvRun.told(ctx, at)
		return got, nil
	}
}

// move lets the conversation rest, in which its home saves it and tells the others, has another node answer, and compares what
// both tell before and after it.
func (j *journey) move(ctx context.Context, to *host) (KVMove, error) {
	m, home, left, told := unmoved, j.at, j.left, j.told
	if !sleep(ctx, j.cfg.Pause) {
		return m, context.Cause(ctx)
	}
	before, ready := j.kvRun.told(ctx, to)
	got, err := j.turn(ctx, to, kvAsk)
	if err != nil {
		return m, err
	}
	m.TTFT, m.Prompt, m.Cached, m.Route = got.first.Seconds(), got.prompt, got.cached, got.route
	m.Class = Turn{Prompt: got.prompt, Cached: got.cached}.Class().String()
	if after, ok := j.kvRun.told(ctx, home); ok && told {
		m.Save = saveBetween(left, after, j.model)
	}
	if ready {
		m.Import = j.imported(ctx, before, home)
	}
	if m.Save != nil && m.Import != nil && m.Save.Saves == 1 && m.Save.Bytes > 0 {
		delta := float64(m.Import.Bytes) / float64(m.Save.Bytes)
		m.Import.Delta = &delta
	}
	return m, nil
}

// imported is what the node that the conversation is at has imported since. Whether it was of use is known a moment after the
// answer, and waited for.
func (j *journey) imported(ctx context.Context, before status.KV, home *host) (found *KVImport) {
	after, ok := j.left, j.told
	for range evidenceLooks {
		if !ok {
			return found
		}
		found = importBetween(before, after, home.Node, j.at.Node)
		if found == nil || found.Proved || found.Failed || !sleep(ctx, evidencePause) {
			return found
		}
		after, ok = j.kvRun.told(ctx, j.at)
	}
	return found
}

const (
	evidenceLooks = 20
	evidencePause = 100 * time.Millisecond
)

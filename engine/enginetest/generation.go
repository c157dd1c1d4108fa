package enginetest

import (
	"context"
	"hash/crc32"
	mrand "math/rand/v2"
	"time"
	"unicode/utf8"
)

// generation is one choice of a request on its way through a slot.
type generation struct {
	srv    *Server
	req    *request
	index  int
	prompt []byte
	client context.Context // ends when the client leaves
	kept   *keptStream     // set when the stream goes on without its client
	crash  <-chan struct{} // closed when the server crashes

	parent *generation   // the first choice of the same prompt, nil for itself
	ready  chan struct{} // closed when the prompt has been read
	ended  chan struct{} // closed when run has ended

	slot    *slot
	place   *waiter // in the line for a slot
	cached  int
	done    int    // prompt tokens in the slot
	text    []byte // generated so far
	sent    int    // bytes of text that have been given to the client
	reply   func(n int) byte
	finish  string // "", "stop", "length"
	word    string // the stop text that was met
	limited bool   // ended because the slot was full

	began, prefilled, now time.Time
	goneAt                time.Time     // when the client's leaving could first be seen
	stood                 time.Duration // of the loop, when the times that its steps are reckoned from were taken
}

// handler is told of a generation's steps. Its error ends the generation.
type handler interface {
	progress(*generation) error
	token(*generation, string) error
}

// enter asks for a slot. Generations of one request enter in their order, before any of them runs.
func (g *generation) enter() {
	g.slot, g.place = g.srv.slots.ask(g.req.slot, g.prompt)
	if g.place != nil {
		g.srv.seen.count(func(st *Stats) { st.Oversubscribed++ })
	}
}

// run waits for the slot and takes the generation through it.
func (g *generation) run(h handler) error {
	defer close(g.ended)
	if g.place != nil {
		s, err := g.stand(g.place)
		if err != nil {
			g.srv.slots.leave(g.place)
			return err
		}
		g.slot = s
	}
	defer g.srv.slots.free(g.slot)
	read := g.prefill
	if g.parent != nil {
		read = g.copyParent
	}
	if err := read(h); err != nil {
		return err
	}
	return g.decode(h)
}

// copyParent gives a further choice of the same prompt what the first has computed.
func (g *generation) copyParent(handler) error {
	p := g.parent
	select {
	case <-p.ready:
	case <-p.ended:
	}
	select {
	case <-p.ready:
	default:
		return errCancelled // the first has ended, with an error of its own
	}
	g.stood = g.srv.loop.standstill()
	g.cached, g.done, g.began, g.prefilled, g.now = p.cached, p.done, p.began, p.prefilled, p.prefilled
	g.srv.slots.update(func() {
		g.slot.tokens, g.slot.params = g.prompt, taskParams{g.req.max, g.req.max, g.req.stream}
	})
	return nil
}

// stand waits in line. A client that leaves is noticed as late here as in prefill.
func (g *generation) stand(w *waiter) (*slot, error) {
	left := g.client.Done()
	var look <-chan time.Time
	for {
		select {
		case s := <-w.granted:
			return s, nil
		case <-g.srv.ctx.Done():
			return nil, errDropped
		case <-g.crash:
			return nil, errDropped
		case <-left:
			left = nil
		case <-look:
		}
		if g.gone(false) {
			return nil, errCancelled
		}
		look = time.After(g.srv.scaled(quiet / 10))
	}
}

func (g *generation) prefill(h handler) error {
	t := g.srv.slots
	if err := g.step(time.Time{}, nil); err != nil {
		return err
	}
	// Only a slot finds that a prompt is too long for it.
	if err := fits(g.prompt, g.srv.o.Context); err != nil {
		return err
	}
	g.began, g.stood = time.Now(), g.srv.loop.standstill()
	if g.req.cachePrompt {
		g.cached = min(prefixLen(g.slot.tokens, g.prompt), len(g.prompt)-1)
	}
	if g.slot.cold {
		g.cached = 0
	}
	g.cached = max(g.cached, 0)
	g.done = g.cached
	t.update(func() {
		s := g.slot
		s.tokens, s.cold = g.prompt[:g.cached], false
		s.cached, s.processed, s.decoded, s.remain = g.cached, 0, 0, g.req.max
		s.params = taskParams{g.req.max, g.req.max, g.req.stream}
	})
	g.now = g.began
	if err := h.progress(g); err != nil {
		return err
	}
	next := g.began
	for g.done < len(g.prompt) {
		n := min(g.srv.o.Batch, len(g.prompt)-g.done)
		next = next.Add(g.cost(n, g.srv.o.PrefillTPS))
		if err := g.step(next, nil); err != nil {
			return err
		}
		g.done += n
		t.update(func() {
			g.slot.tokens, g.slot.processed = g.prompt[:g.done], g.done-g.cached
			t.totals.decodes++
		})
		g.now = time.Now()
		if err := h.progress(g); err != nil {
			return err
		}
	}
	g.prefilled, g.stood = time.Now(), g.srv.loop.standstill()
	close(g.ready)
	return nil
}

func (g *generation) decode(h handler) error {
	t, s := g.srv.slots, g.slot
	if g.reply == nil {
		g.reply = g.replyText()
	}
	wake := g.client.Done()
	if !g.req.stream || g.kept != nil {
		wake = nil
	}
	if len(g.prompt) == 0 {
		g.now, g.finish = g.prefilled, "none"
		return nil
	}
	next := g.prefilled
	for n := 1; g.finish == ""; n++ {
		// The first token comes out of the prefill's last batch.
		if n > 1 {
			next = next.Add(g.cost(1, g.srv.o.DecodeTPS))
		}
		if err := g.step(next, wake); err != nil {
			return err
		}
		g.now = time.Now()
		t.update(func() {
			if n > 1 {
				s.tokens = append(s.tokens, g.text[n-2])
			}
			s.decoded, s.remain = n, g.req.max-n
			t.totals.decodes++
			t.totals.longest = max(t.totals.longest, len(s.tokens))
		})
		if err := g.next(h, n); err != nil {
			return err
		}
	}
	t.update(func() {
		t.totals.prompt += len(g.prompt) - g.cached
		t.totals.cached += g.cached
		t.totals.predicted += len(g.text)
		t.totals.promptSeconds += g.prefilled.Sub(g.began).Seconds() * g.srv.o.Speed
		t.totals.predictedSeconds += g.now.Sub(g.prefilled).Seconds() * g.srv.o.Speed
	})
	return nil
}

// next makes token n and passes on what text is complete.
func (g *generation) next(h handler, n int) error {
	f := g.srv.fault.get()
	switch {
	case f.CrashAfter > 0 && n > f.CrashAfter:
		return errDropped
	case f.ErrorAfter > 0 && n > f.ErrorAfter:
		return apiError{Code: 500, Type: "server_error", Message: "Context size has been exceeded."}
	}
	g.text = append(g.text, g.reply(n-1))
	end := len(g.text)
	if len(g.req.stop) > 0 {
		end, g.word = g.req.cut(string(g.text))
		if g.word != "" {
			g.finish = "stop"
		}
	}
	switch {
	case g.finish != "":
	case n >= g.req.max && g.req.max >= 0:
		g.finish = "length"
	case len(g.prompt)+n >= g.srv.o.Context:
		g.finish, g.limited = "length", true
	case !g.req.ignoreEOS && n >= g.replyLen():
		g.finish = "stop"
	}
	if g.finish != "" && g.word == "" {
		end = len(g.text)
	}
	// A character of several bytes is sent whole.
	ready := g.text[min(g.sent, end):end]
	if g.finish == "" && !utf8.Valid(ready) && len(ready) < utf8.UTFMax {
		return nil
	}
	g.sent += len(ready)
	return h.token(g, string(ready))
}

func (g *generation) replyLen() int {
	if g.srv.o.Reply != "" {
		return len(g.srv.o.Reply)
	}
	return g.srv.o.ReplyTokens
}

// replyText gives the answer byte by byte: the configured one, then letters that depend on the whole prompt.
func (g *generation) replyText() func(int) byte {
	const letters = "etaoin shrdlu cmfwyp vbgk"
	sum := crc32.Checksum(g.prompt, crc32.MakeTable(crc32.Castagnoli))
	random := mrand.New(mrand.NewPCG(uint64(sum), 0))
	return func(n int) byte {
		if n < len(g.srv.o.Reply) {
			return g.srv.o.Reply[n]
		}
		return letters[random.IntN(len(letters))]
	}
}

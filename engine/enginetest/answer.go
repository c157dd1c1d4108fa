package enginetest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// form is one route's way to ask and to answer. The append methods write whole server-sent events; they are called
// for one generation at a time.
type form interface {
	// read makes a request of a body.
	read(*fields, Options) (*request, error)
	// whole is the answer to a request that does not stream.
	whole(*answer) any

	// opening is sent once for each generation before its first token. progressed tells that progress was sent before.
	opening(b []byte, g *generation, c *chunk, progressed bool) []byte
	progress(b []byte, g *generation, c *chunk, first bool) []byte
	token(b []byte, g *generation, c *chunk, text string) []byte
	closing(b []byte, g *generation, c *chunk) []byte
	// failure is sent in place of all that was still to come.
	failure(b []byte, e apiError) []byte
}

// chunk is what all events of one answer share.
type chunk struct {
	id, item string
	created  int64
	model    string
	tail     string // of a token's event, the same for all; made once
}

// answer writes the answer to one request. Several generations may call it at one time.
type answer struct {
	srv  *Server
	req  *request
	form form
	gens []*generation
	chunk

	mu      sync.Mutex
	w       http.ResponseWriter
	client  context.Context // the request's
	flusher http.Flusher
	kept    *keptStream
	buf     []byte
	started bool
	opened  []bool // by generation
	waited  []bool // by generation: progress was sent
}

// inference handles one of the routes that need a slot.
func (s *Server) inference(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.seen.begin()
		err := s.infer(f, w, r)
		fate := Failed
		switch {
		case err == nil:
			fate = Served
		case errors.Is(err, errCancelled):
			fate = Cancelled
		}
		s.seen.end(r.Body.(heldBody).entry, fate)
		if errors.Is(err, errDropped) || errors.Is(err, errCancelled) {
			panic(http.ErrAbortHandler)
		}
	}
}

func (s *Server) infer(f form, w http.ResponseWriter, r *http.Request) error {
	if status := s.fault.get().Fail; status != 0 {
		e := apiError{Code: status, Type: "server_error", Message: "the fault that was asked for"}
		sendError(w, e)
		return e
	}
	body, err := decodeBody(bodyOf(r))
	var req *request
	if err == nil {
		req, err = f.read(body, s.o)
	}
	if err != nil {
		sendError(w, asAPIError(err))
		return err
	}
	a := &answer{srv: s, req: req, form: f, w: w, client: r.Context(), opened: make([]bool, len(req.prompts)), waited: make([]bool, len(req.prompts))}
	a.flusher, _ = w.(http.Flusher)
	a.chunk = chunk{id: newID("chatcmpl-"), item: newID("msg_"), created: time.Now().Unix(), model: s.o.Model}
	if req.stream {
		a.kept = s.streams.open(r.Header.Get("X-Conversation-Id"))
	}
	crash := s.fault.crashing()
	for i, p := range req.prompts {
		g := &generation{srv: s, req: req, index: i, prompt: p, client: r.Context(), kept: a.kept, crash: crash,
			ready: make(chan struct{}), ended: make(chan struct{})}
		if i > 0 && !req.list {
			g.parent = a.gens[0]
		}
		a.gens = append(a.gens, g)
	}
	err = a.run()
	if a.kept != nil {
		a.kept.end()
	}
	return err
}

// run drives all generations and ends the answer.
func (a *answer) run() error {
	err := a.generate()
	var failure apiError
	switch {
	case errors.As(err, &failure) && a.started:
		a.event(a.form.failure(nil, failure))
	case errors.As(err, &failure):
		sendError(a.w, failure)
	case errors.Is(err, errDropped) && a.started:
		a.event([]byte(`data: {"cho`)) // a process dies in the middle of a chunk
	case err != nil:
	case !a.req.stream:
		a.srv.result()
		send(a.w, http.StatusOK, a.form.whole(a))
	default:
		switch a.form.(type) {
		case chatForm, textForm:
			a.event([]byte("data: [DONE]\n\n"))
		}
	}
	return err
}

func (a *answer) generate() error {
	for _, g := range a.gens {
		g.enter()
	}
	if len(a.gens) == 1 {
		return a.one(a.gens[0])
	}
	if a.req.list && a.req.stream {
		a.event([]byte("data: null\n\n"))
	}
	ctx, cancel := context.WithCancelCause(a.gens[0].client)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, g := range a.gens {
		g.client = ctx
		all.Go(func() {
			if err := a.one(g); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if ctx.Err() != nil {
		return errCancelled
	}
	return nil
}

func (a *answer) one(g *generation) error {
	if err := g.run(a); err != nil {
		return err
	}
	if !a.req.stream {
		return nil
	}
	return a.write(g, func(b []byte) []byte {
		b = a.open(b, g)
		return a.form.closing(b, g, &a.chunk)
	})
}

// progress implements handler.
func (a *answer) progress(g *generation) error {
	if !a.req.stream || !a.req.progress {
		return nil
	}
	return a.write(g, func(b []byte) []byte {
		first := !a.waited[g.index]
		a.waited[g.index] = true
		return a.form.progress(b, g, &a.chunk, first)
	})
}

// token implements handler.
func (a *answer) token(g *generation, text string) error {
	if !a.req.stream {
		return nil
	}
	return a.write(g, func(b []byte) []byte {
		b = a.open(b, g)
		if text == "" {
			return b
		}
		return a.form.token(b, g, &a.chunk, text)
	})
}

func (a *answer) open(b []byte, g *generation) []byte {
	if a.opened[g.index] {
		return b
	}
	a.opened[g.index] = true
	return a.form.opening(b, g, &a.chunk, a.waited[g.index])
}

// write sends what f appends, and notices a client that has left. Nothing to send is no result: nobody is told, and
// nothing is noticed.
func (a *answer) write(g *generation, f func([]byte) []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.buf = f(a.buf[:0])
	if len(a.buf) == 0 {
		return nil
	}
	a.srv.result()
	if g.gone(true) {
		return errCancelled
	}
	a.send(a.buf)
	return nil
}

func (a *answer) event(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.send(b)
}

func (a *answer) send(b []byte) {
	if !a.started {
		a.started = true
		markStreamed(a.client)
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.w.Header().Set("X-Accel-Buffering", "no")
		a.w.WriteHeader(http.StatusOK)
	}
	if a.kept != nil {
		a.kept.add(b)
	}
	a.w.Write(b) // an error here is a client that left: noticed by its context
	if a.flusher != nil {
		a.flusher.Flush()
	}
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Bounds of what is waited for and read.
const (
	quietLimit  = 3 * time.Minute // without any byte: an entry sends something every 10 s once it streams
	textLimit   = 64              // bytes that a token of an answer may have, in the mean
	usualPause  = 2 * time.Second // before a try after a refusal that names none
	longPause   = time.Minute     // at most, whatever it names
	maxRefusals = 30              // then the turn is given up
)

// client asks entries.
type client struct {
	http  *http.Client
	task  string // the label of its requests
	model string
}

func newClient(task string) *client {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		MaxResponseHeaderBytes: 64 << 10, DisableCompression: true,
	}
	return &client{task: task, http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// message is one of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// question is a request. Answers are as long as the work says, whatever the model would like to end with: so that two runs
// generate the same.
type question struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
	MaxTokens     int             `json:"max_tokens"`
	IgnoreEOS     bool            `json:"ignore_eos"`

	host string // the node that is to run it; "" = any
}

// answer is what came back, by the clock of the try.
type answer struct {
	text                      string
	prompt, cached, output    int // -1 = not told
	node, backend, route, key string
	queue                     time.Duration // -1 = not told
	first                     time.Duration // to the first token
	took                      time.Duration
}

// Why there is no whole answer. A refusal may be tried again after its pause.
var (
	errNotReached = errors.New("no connection")
	errSilent     = errors.New("silent")
	errBrokeOff   = errors.New("broke off")
	errTooLong    = errors.New("answer too long")
	errInAnswer   = errors.New("error in the answer")
)

type refusal struct {
	status int
	pause  time.Duration
}

func (r refusal) Error() string { return "status " + strconv.Itoa(r.status) }

// busy tells a fleet that has no room now from one that says no.
func (r refusal) busy() bool {
	return r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
}

// ask sends one request by an entry and reads the answer to its end.
func (c *client) ask(ctx context.Context, entry, key string, q question) (answer, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	quiet := time.AfterFunc(quietLimit, func() { cut(errSilent) })
	defer quiet.Stop()
	address := entry + "/v1/chat/completions"
	if q.host != "" {
		address += "?host=" + url.QueryEscape(q.host)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return answer{}, errNotReached
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Viiwork-Task", c.task)
	if key != "" {
		req.Header.Set("X-Session-Id", key)
	}
	begun := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, ending(ctx, errNotReached)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer{}, refusal{resp.StatusCode, pauseOf(resp.Header)}
	}
	s := stream{begun: begun, limit: 4096 + textLimit*q.MaxTokens, answer: answer{prompt: -1, cached: -1, output: -1, queue: -1}}
	if err := s.read(reader{resp.Body, quiet}); err != nil {
		return answer{}, ending(ctx, err)
	}
	s.took = time.Since(begun)
	s.heads(resp.Header)
	s.heads(resp.Trailer)
	return s.answer, nil
}

// ending is why a try ended: its context's cause, if that did it.
func ending(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// reader puts the end for silence off with each byte.
type reader struct {
	io.Reader
	quiet *time.Timer
}

func (r reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.quiet.Reset(quietLimit)
	}
	return n, err
}

// pauseOf is what Retry-After says, within reason.
func pauseOf(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return usualPause
	}
	return min(max(time.Duration(min(n, 3600))*time.Second, time.Second), longPause)
}

// heads takes what viiwork's headers, or trailers, say.
func (a *answer) heads(h http.Header) {
	for to, key := range map[*string]string{&a.node: "X-Viiwork-Node", &a.backend: "X-Viiwork-Backend", &a.route: "X-Viiwork-Route", &a.key: "X-Viiwork-Key"} {
		if v := h.Get(key); v != "" {
			*to = name(v)
		}
	}
	if ms, err := strconv.ParseFloat(h.Get("X-Viiwork-Queue-Ms"), 64); err == nil && ms >= 0 && ms < 1e9 {
		a.queue = time.Duration(ms * float64(time.Millisecond))
	}
}

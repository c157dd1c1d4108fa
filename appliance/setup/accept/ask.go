package accept

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	askWithin = 3 * time.Minute // an answer of a few words, from a slow machine
	maxAnswer = 8 << 20
)

// answer is what came of one request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// path leads to this node, or by it to another member.
func path(member, rest string) string {
	if member == "" {
		return rest
	}
	return "/api/members/" + url.PathEscape(member) + rest
}

// send sends one request and reads the answer whole.
func (r *run) send(ctx context.Context, method, path string, body any) (answer, error) {
	begun := time.Now()
	resp, err := r.open(ctx, method, path, body)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, late(fmt.Errorf("reading the answer: %w", err), begun)
	}
	for key, values := range resp.Trailer { // what was not known when the headers went out
		resp.Header[key] = values
	}
	return answer{resp.StatusCode, resp.Header, text}, nil
}

// open sends one request and leaves the answer to be read.
func (r *run) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, content)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	begun := time.Now()
	resp, err := r.cfg.Do(req)
	return resp, late(err, begun)
}

// late puts into words that a check's own time was over.
func late(err error, begun time.Time) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no whole answer within %s: 'viiwork status' shows what this machine is busy with", time.Since(begun).Round(time.Second))
}

// get reads a JSON document of a member, "" = of this node.
func (r *run) get(ctx context.Context, member, rest string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	a, err := r.send(ctx, http.MethodGet, path(member, rest), nil)
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return errors.New(a.fault())
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// fault is the word of an answer that is an error.
func (a answer) fault() string {
	var doc struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	text := strings.TrimSpace(string(a.body))
	if json.Unmarshal(a.body, &doc) == nil && doc.Error.Message != "" {
		text = doc.Error.Message
	}
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return fmt.Sprintf("%d %s", a.status, text)
}

// pause waits, and reports whether there is time left.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func listed(names []string) string {
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " and " + names[n]
	}
	return strings.Join(names, "")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

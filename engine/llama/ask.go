package llama

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"viiwork/engine"
)

// maxAnswer bounds what an engine may answer: /slots with all slots in use has some kilobytes, an old build that shows
// prompts there a few megabytes.
const maxAnswer = 8 << 20

// answer is what an engine said.
type answer struct {
	status int
	body   []byte
}

// get asks path of an engine.
func (d *Dialect) get(ctx context.Context, t engine.Target, path string) (answer, error) {
	return d.ask(ctx, t, http.MethodGet, path, nil)
}

// ask sends one request and reads the whole, bounded answer. A status that is not 200 is no error here.
func (d *Dialect) ask(ctx context.Context, t engine.Target, method, path string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(t.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		// The error would quote the address, and a foreign server's may hold a password.
		return answer{}, errors.New("asking the engine: its address is not a URL: correct llamacpp.url")
	}
	if t.Key != "" {
		req.Header.Set("Authorization", "Bearer "+t.Key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("asking the engine: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, fmt.Errorf("reading the engine's answer to %s: %w", path, err)
	}
	if len(data) > maxAnswer {
		return answer{}, fmt.Errorf("reading the engine's answer to %s: it has more than %d MiB", path, maxAnswer>>20)
	}
	return answer{status: resp.StatusCode, body: data}, nil
}

// fault turns an answer that was not wanted into an error, with the server's own words when it has any. Some servers
// quote the key they were given, so it is cut out.
func (a answer) fault(t engine.Target, path string) error {
	words := a.message()
	if t.Key != "" {
		words = strings.ReplaceAll(words, t.Key, "…")
	}
	if words = printable(words, 200); words == "" {
		return fmt.Errorf("the engine answered %s with status %d", path, a.status)
	}
	return fmt.Errorf("the engine answered %s with status %d: %s", path, a.status, words)
}

// message finds the text of {"error":{"message":…}}, {"error":"…"} and {"message":"…"}.
func (a answer) message() string {
	var shape struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(a.body, &shape) != nil {
		return ""
	}
	var nested struct {
		Message string `json:"message"`
	}
	var flat string
	switch {
	case json.Unmarshal(shape.Error, &nested) == nil && nested.Message != "":
		return nested.Message
	case json.Unmarshal(shape.Error, &flat) == nil && flat != "":
		return flat
	}
	return shape.Message
}

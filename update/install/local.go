package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// LocalNode is the node that answers at a socket of this machine.
type LocalNode struct {
	Socket string
	Name   string // of the node: what it is asked is to run on it, not elsewhere in its mesh
}

const maxAnswer = 16 << 20

// seen is what is read of a node's status; docs/api.md has the rest.
type seen struct {
	Version string `json:"version"`
	Models  []struct {
		Name     string `json:"name"`
		Backends []struct {
			State string `json:"state"`
		} `json:"backends"`
	} `json:"models"`
}

// Look asks for its status. Which process answers is the kernel's word, not its own.
func (n LocalNode) Look(ctx context.Context) (Sight, error) {
	pid := 0
	text, err := n.ask(ctx, "/v1/status", nil, &pid)
	if err != nil {
		return Sight{}, err
	}
	var is seen
	if err := json.Unmarshal(text, &is); err != nil {
		return Sight{}, fmt.Errorf("reading its status: %w", err)
	}
	s := Sight{PID: pid, Version: is.Version, Ready: map[string]int{}}
	for _, m := range is.Models {
		for _, b := range m.Backends {
			if b.State == "ready" || b.State == "busy" {
				s.Ready[m.Name]++
			}
		}
	}
	return s, nil
}

// Complete asks a model for some words; one that embeds or ranks, and so has none, for that.
func (n LocalNode) Complete(ctx context.Context, model string) error {
	var faults []error
	for _, want := range []struct {
		path string
		body map[string]any
	}{
		{"/v1/chat/completions", map[string]any{"max_tokens": 8, "temperature": 0, "messages": []map[string]string{{"role": "user", "content": "Say the word ready."}}}},
		{"/v1/embeddings", map[string]any{"input": "ready"}},
		{"/v1/rerank", map[string]any{"query": "ready", "documents": []string{"ready", "not yet"}}},
	} {
		want.body["model"] = model
		text, err := n.ask(ctx, want.path+"?host="+url.QueryEscape(n.Name), want.body, nil)
		if err == nil {
			err = holds(want.path, text)
		}
		if err == nil {
			return nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	return faults[0] // most models chat
}

// holds wants more of an answer than that it came.
func holds(path string, text []byte) error {
	var is struct {
		Choices []struct {
			Message struct {
				Content   string `json:"content"`
				Reasoning string `json:"reasoning_content"`
			} `json:"message"`
		} `json:"choices"`
		Data    []json.RawMessage `json:"data"`
		Results []json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(text, &is); err != nil {
		return fmt.Errorf("reading its answer: %w", err)
	}
	switch {
	case strings.Contains(path, "embeddings") && len(is.Data) > 0, strings.Contains(path, "rerank") && len(is.Results) > 0:
		return nil
	case len(is.Choices) > 0 && is.Choices[0].Message.Content+is.Choices[0].Message.Reasoning != "":
		return nil
	}
	return errors.New("its answer is empty")
}

// ask gets what is at path, or posts body there, and reads the answer whole. pid is told who answers; nil = nobody asks.
func (n LocalNode) ask(ctx context.Context, path string, body map[string]any, pid *int) ([]byte, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "unix", n.Socket)
		if err == nil && pid != nil {
			*pid, err = peerOf(conn)
		}
		return conn, err
	}
	method, content := http.MethodGet, io.Reader(http.NoBody)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		method, content = http.MethodPost, bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Transport{DialContext: dial, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answered %d %s", resp.StatusCode, Clip(string(text)))
	}
	return text, err
}

// peerOf is the process at the other end.
func peerOf(conn net.Conn) (pid int, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	ctlErr := raw.Control(func(fd uintptr) { pid, err = peerPID(int(fd)) })
	return pid, errors.Join(ctlErr, err)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
)

// maxAnswer bounds what is read of a node's answer: a status of a thousand backends is far below it.
const maxAnswer = 16 << 20

// node is the running node of this configuration, reached by its socket: who may open that file needs no other proof.
type node struct {
	socket  string
	command string // how to start it, for the error when it is not running
	http    *http.Client
}

// node finds the socket by the configuration. It does not need a valid one: a secret that only the service's own
// environment holds, or an edit gone wrong, must not keep the owner from looking at what runs.
func (c *cli) node() (*node, error) {
	cfg, path, err := c.load()
	if cfg == nil || cfg.Node.StateDir == "" {
		return nil, err
	}
	return nodeAt(appliance.SocketPath(cfg.Node.StateDir), "viiwork serve --config "+path), nil
}

// nodeOf is the node of a configuration that was read.
func (c *cli) nodeOf(cfg *config.Config) *node {
	return nodeAt(appliance.SocketPath(cfg.Node.StateDir), "viiwork serve --config "+cfg.File())
}

// nodeAt is the node that listens at socket, or would if it were started by command.
func nodeAt(socket, command string) *node {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, "unix", socket)
	}
	return &node{
		socket:  socket,
		command: command,
		http:    &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}
}

// load reads the configuration that the flags and the environment point at, and says where it was.
func (c *cli) load() (*config.Config, string, error) {
	path, err := config.Find(c.configPath, c.getenv)
	if err != nil {
		return nil, "", err
	}
	cfg, err := c.loadFrom(path)
	return cfg, path, err
}

// loadFrom reads the configuration at path, under the invocation's environment and the variables beside the file.
func (c *cli) loadFrom(path string) (*config.Config, error) {
	environ, err := config.Beside(path, c.Environ)
	if err != nil {
		return nil, err
	}
	return config.Load(path, environ)
}

// call sends one request and returns the answer's body; the caller closes it. Any answer but a 2xx is an error.
func (n *node) call(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	var content io.Reader
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
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := n.http.Do(req)
	if err != nil {
		return nil, n.unreachable(err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return resp.Body, nil
}

// unreachable says what a failed connection means for the owner.
func (n *node) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return coded{exitNotRunning, fmt.Errorf("no node answers at %s: start it with '%s'", n.socket, n.command)}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be opened by this user: run this as the user the node runs as", n.socket)
	}
	return fmt.Errorf("asking the node at %s: %w", n.socket, err)
}

// refused is a node's own no, in its words.
type refused struct {
	status int
	error
}

// refusal is a node's own error answer.
func refusal(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.Error.Message == "" {
		return &refused{resp.StatusCode, fmt.Errorf("the node answered %s", resp.Status)}
	}
	return &refused{resp.StatusCode, errors.New(strings.TrimSpace(answer.Error.Message))}
}

// read fetches a JSON document whole.
func (n *node) read(ctx context.Context, path string) ([]byte, error) {
	body, err := n.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("reading the node's answer: %w", err)
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("the node's answer is over %d bytes", maxAnswer)
	}
	return text, nil
}

// get fetches a JSON document into v.
func (n *node) get(ctx context.Context, path string, v any) error {
	text, err := n.read(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("reading the node's answer: %w", err)
	}
	return nil
}

// relay prints a JSON document of the node as it is, fields unknown to this program included.
func (c *cli) relay(ctx context.Context, n *node, path string) error {
	text, err := n.read(ctx, path)
	if err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, bytes.TrimSpace(text), "", "  "); err != nil {
		return fmt.Errorf("reading the node's answer: %w", err)
	}
	pretty.WriteByte('\n')
	return c.print(&pretty)
}

package gateway

import "strings"

// kind is the shape of a route's answer.
type kind uint8

const (
	kindPlain       kind = iota // one JSON answer, passed through as it is
	kindChat                    // /v1/chat/completions
	kindCompletions             // /v1/completions
	kindMessages                // /v1/messages, the Anthropic API
	kindResponses               // /v1/responses
	kindInfill                  // /infill, llama-server's own events
)

// endpoint is one inference route.
type endpoint struct {
	path string
	kind kind
}

// routes are the paths that reach an engine, by the same path there.
var routes = []endpoint{
	{"/v1/chat/completions", kindChat},
	{"/v1/completions", kindCompletions},
	{"/v1/messages", kindMessages},
	{"/v1/responses", kindResponses},
	{"/infill", kindInfill},
	{"/v1/messages/count_tokens", kindPlain},
	{"/v1/embeddings", kindPlain},
	{"/v1/rerank", kindPlain},
	{"/tokenize", kindPlain},
	{"/apply-template", kindPlain},
}

// streams tells whether the engine is asked to stream, whatever the client wants.
func (r endpoint) streams() bool { return r.kind != kindPlain }

// anthropic tells whether a path answers in the Anthropic API's shapes.
func anthropic(path string) bool {
	return path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/")
}

// Package gateway is where a node answers: OpenAI and Anthropic requests come in, an engine runs them, the answer
// streams back.
//
// What it promises: a request is forwarded once and never again after its first answer byte; the body is read once and
// what need not change reaches the engine byte for byte; a client that leaves closes the engine's connection at every
// stage; a stream that breaks ends with an error event in the API's own shape, never as if it were complete; no prompt,
// completion, key or address of an engine appears in a log line or in an error of ours.
//
// In a mesh ([Gateway.Join]) a request that enters here runs wherever a slot is free: here, or at a member, to which it is
// forwarded once. What a member forwards runs here at once or is refused; it is never forwarded again and never waits.
// Until its first answer byte a request that was refused may go to another node; afterwards never.
//
// How a request goes: limits and scan (body.go, scan.go) → the model that the name stands for (alias.go) → session key
// (keys.go), and the prompt's prefix (prefix*.go) → a place among those that look for a slot (lineup.go), a plan (survey.go), and a seat of this node's line or of
// a member's (seat.go, search.go, asking.go) → to a member by forward.go and relay.go, where hop.go receives it → the
// body with its few edits (edit.go) → events passed through (stream.go) or put together for a client that does not stream
// (assemble_*.go) → the row of /api/requests (ledger.go). lend.go is the other side: this node's slots for members.
//
// Engines are always asked to stream: llama-server notices a lost client only then, and at once.
//
// One goroutine owns each request: the handler's. Its answer has a second writer, the keep-alive timer; both go through
// [answer] and its mutex. All exported methods may be called from any goroutine. The package starts no goroutine that
// outlives a request; [Gateway.Run] stores what was measured (account.go, rates.go).
package gateway

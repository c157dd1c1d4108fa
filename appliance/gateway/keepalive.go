package gateway

import "encoding/json"

// keepAlives gives the events that keep a stream of a kind alive. Comments suffice for most clients; the Responses
// clients reset their idle timer on data only, and take nothing before a response.created.
func (k *call) keepAlives() func() []byte {
	switch k.rt.kind {
	case kindMessages:
		return func() []byte { return pingEvent }
	case kindResponses:
		return k.responsesKeepAlive
	}
	return func() []byte { return commentEvent }
}

var (
	commentEvent = []byte(": waiting\n\n")
	pingEvent    = []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")
)

// responsesKeepAlive is called with the answer's mutex held.
func (k *call) responsesKeepAlive() []byte {
	var out []byte
	if !k.ans.created {
		k.ans.created = true
		out = k.createdEvent()
	}
	return append(out, responseEvent("response.in_progress", map[string]any{"id": "resp_" + k.id, "object": "response", "status": "in_progress"})...)
}

// createdEvent begins an answer whose engine has not begun yet.
func (k *call) createdEvent() []byte {
	return responseEvent("response.created", map[string]any{"id": "resp_" + k.id, "object": "response", "status": "in_progress", "model": k.model, "output": []any{}})
}

func responseEvent(name string, response map[string]any) []byte {
	b, err := json.Marshal(map[string]any{"type": name, "response": response})
	if err != nil { // cannot be: it holds strings only
		return nil
	}
	return concat("event: "+name+"\ndata: ", b, "\n\n")
}

// claimCreated reports whether the response.created at hand is the first of this answer.
func (a *answer) claimCreated() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.created
	a.created = true
	return first
}

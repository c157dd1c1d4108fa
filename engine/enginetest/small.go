package enginetest

import (
	"hash/crc32"
	"math"
	"math/rand/v2"
	"net/http"
)

// What answers without a slot: token counts and templates; and embeddings and ranks, which need one but no queue here.

func (s *Server) countTokens(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := decodeBody(bodyOf(r))
		var req *request
		if err == nil {
			req, err = f.read(body, s.o)
		}
		if err != nil {
			sendError(w, asAPIError(err))
			return
		}
		v := object{"input_tokens": len(req.prompts[0])}
		if _, anthropic := f.(messagesForm); !anthropic {
			v["object"] = "response.input_tokens"
		}
		send(w, http.StatusOK, v)
	}
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	body, err := decodeBody(bodyOf(r))
	if err != nil {
		sendError(w, asAPIError(err))
		return
	}
	tokens := appendTokens(nil, body.text("content"))
	list := make([]any, len(tokens))
	for i, b := range tokens {
		list[i] = tokenID(b)
		if body.boolean("with_pieces", false) {
			list[i] = object{"id": tokenID(b), "piece": detokenize(tokens[i : i+1])}
		}
	}
	send(w, http.StatusOK, object{"tokens": list})
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	body, err := decodeBody(bodyOf(r))
	if err != nil {
		sendError(w, asAPIError(err))
		return
	}
	list, _ := body.m["tokens"].([]any)
	var tokens []byte
	for _, id := range list {
		n, _ := id.(float64)
		tokens = append(tokens, holdID(int(n)))
	}
	send(w, http.StatusOK, object{"content": detokenize(tokens)})
}

func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request) {
	body, err := decodeBody(bodyOf(r))
	var messages []message
	if err == nil {
		messages, err = parseMessages(body.m["messages"], "messages")
	}
	if err != nil {
		sendError(w, asAPIError(err))
		return
	}
	send(w, http.StatusOK, object{"prompt": detokenize(renderChat(messages))})
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	if !s.o.Embeddings {
		sendError(w, notSupported("embeddings", "--embeddings"))
		return
	}
	s.needsLoop(r)
	body, err := decodeBody(bodyOf(r))
	if err != nil {
		sendError(w, asAPIError(err))
		return
	}
	input := body.m["input"]
	if input == nil {
		input = body.m["content"]
	}
	var texts []string
	switch v := input.(type) {
	case string:
		texts = []string{v}
	case []any:
		for _, e := range v {
			texts = append(texts, contentText(e))
		}
	default:
		sendError(w, badRequest(`"input" or "content" must be provided`))
		return
	}
	tokens := 0
	data := []object{}
	for i, text := range texts {
		tokens += len(appendTokens(nil, text))
		data = append(data, object{"embedding": embed(text), "index": i, "object": "embedding"})
	}
	if r.URL.Path == "/embedding" {
		for _, d := range data {
			d["embedding"] = [][]float64{d["embedding"].([]float64)}
			delete(d, "object")
		}
		send(w, http.StatusOK, data)
		return
	}
	send(w, http.StatusOK, object{"model": s.o.Model, "object": "list", "data": data,
		"usage": object{"prompt_tokens": tokens, "total_tokens": tokens}})
}

// embed is a unit vector that depends on the text.
func embed(text string) []float64 {
	random := rand.New(rand.NewPCG(uint64(crc32.ChecksumIEEE([]byte(text))), 0))
	v := make([]float64, tinyWidth)
	sum := 0.0
	for i := range v {
		v[i] = random.NormFloat64()
		sum += v[i] * v[i]
	}
	for i := range v {
		v[i] /= math.Sqrt(sum)
	}
	return v
}

func (s *Server) rerank(w http.ResponseWriter, r *http.Request) {
	if !s.o.Rerank {
		sendError(w, notSupported("reranking", "--reranking"))
		return
	}
	s.needsLoop(r)
	body, err := decodeBody(bodyOf(r))
	if err != nil {
		sendError(w, asAPIError(err))
		return
	}
	query := body.text("query")
	documents, ok := body.m["documents"].([]any)
	switch {
	case query == "":
		sendError(w, badRequest(`"query" must be provided`))
		return
	case !ok || len(documents) == 0:
		sendError(w, badRequest(`"documents" must be a non-empty string array`))
		return
	}
	tokens := 0
	results := []object{}
	q := embed(query)
	for i, d := range documents {
		text := contentText(d)
		tokens += len(query) + len(text)
		score := 0.0
		for j, x := range embed(text) {
			score += x * q[j]
		}
		results = append(results, object{"index": i, "relevance_score": score})
	}
	send(w, http.StatusOK, object{"model": s.o.Model, "object": "list", "results": results,
		"usage": object{"prompt_tokens": tokens, "total_tokens": tokens}})
}

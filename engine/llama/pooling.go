package llama

import (
	"errors"
	"strings"

	"viiwork/engine"
)

// CheckPooling refuses an engine for embeddings that has no way to make one vector of a prompt's many: pooled says
// whether the model file brings one. llama-server starts without it, refuses every /v1/embeddings with 400, and
// (measured on 0.7.0) ends by SIGSEGV at the first chat or completion, the one that proves it ready included.
func CheckPooling(m engine.Model, pooled bool) error {
	on := gives(m.Args, "--embedding", "--embeddings") || set(m.Env["LLAMA_ARG_EMBEDDINGS"])
	if !on || gives(m.Args, "--rerank", "--reranking") || set(m.Env["LLAMA_ARG_RERANKING"]) {
		return nil
	}
	chosen := pooling(m)
	if chosen == "none" || chosen == "" && !pooled {
		return errors.New("embeddings need a pooling, and this model brings none: add --pooling and last (or mean) to args")
	}
	return nil
}

// pooling is what the owner chose, "" when nothing; the last flag wins, and flags win over the variable.
func pooling(m engine.Model) string {
	chosen := m.Env["LLAMA_ARG_POOLING"]
	for i, a := range m.Args {
		if flagOf(a) != "--pooling" {
			continue
		}
		if _, value, joined := strings.Cut(a, "="); joined {
			chosen = value
		} else if i+1 < len(m.Args) {
			chosen = m.Args[i+1]
		}
	}
	return chosen
}

// set says whether the server reads a variable's value as "on".
func set(value string) bool {
	switch value {
	case "1", "on", "enabled", "true":
		return true
	}
	return false
}

package llama_test

import (
	"strings"
	"testing"

	"viiwork/engine"
	"viiwork/engine/llama"
)

func TestEmbeddingsWithoutAPoolingAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args    string
		env     map[string]string
		pooled  bool
		refused bool
	}{
		"a chat model":                    {args: "--metrics"},
		"no pooling at all":               {args: "--embeddings", refused: true},
		"the short name":                  {args: "--embedding", refused: true},
		"by a variable":                   {env: map[string]string{"LLAMA_ARG_EMBEDDINGS": "1"}, refused: true},
		"the variable says no":            {env: map[string]string{"LLAMA_ARG_EMBEDDINGS": "0"}},
		"the model's own":                 {args: "--embeddings", pooled: true},
		"the model's own, taken away":     {args: "--embeddings --pooling none", pooled: true, refused: true},
		"the owner's":                     {args: "--embeddings --pooling mean"},
		"the owner's in one word":         {args: "--pooling=last --embeddings"},
		"the owner's by a variable":       {args: "--embeddings", env: map[string]string{"LLAMA_ARG_POOLING": "cls"}},
		"reranking, which has its own":    {args: "--embeddings --reranking"},
		"reranking alone":                 {args: "--rerank"},
		"a pooling without a value after": {args: "--embeddings --pooling", refused: true},
	} {
		err := llama.CheckPooling(engine.Model{Args: strings.Fields(c.args), Env: c.env}, c.pooled)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "--pooling") {
			t.Errorf("%s: got %v, want refused to be %v", name, err, c.refused)
		}
	}
}

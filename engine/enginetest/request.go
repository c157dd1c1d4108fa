package enginetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// request is an inference as its body asks for it.
type request struct {
	prompts  [][]byte // one a choice
	list     bool     // the prompt was a list: a native answer then is one too
	max      int      // tokens at most; -1 = as many as fit
	stop     []string
	slot     int // the slot asked for; -1 = any
	stream   bool
	progress bool // return_progress
	usage    bool // stream_options.include_usage

	timingsPerToken bool
	ignoreEOS       bool
	returnTokens    bool
	cachePrompt     bool
}

// fields is a decoded body with typed access; the first fault stays in err.
type fields struct {
	m   map[string]any
	err error
}

func decodeBody(data []byte) (*fields, error) {
	f := &fields{}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		at := int64(len(data)) + 1
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = max(syntax.Offset, 1)
		}
		return nil, badRequest("[json.exception.parse_error.101] parse error at line 1, column %d: %v", at, err)
	}
	f.m, _ = v.(map[string]any)
	return f, nil
}

func (f *fields) fail(name, want string, got any) {
	if f.err == nil {
		f.err = badRequest("Field '%s': [json.exception.type_error.302] type must be %s, but is %s", name, want, jsonKind(got))
	}
}

func jsonKind(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

// number reads the first of names that is there.
func (f *fields) number(def int, names ...string) int {
	for _, name := range names {
		switch v := f.m[name].(type) {
		case nil:
		case float64:
			return int(v)
		default:
			f.fail(name, "number", v)
		}
	}
	return def
}

func (f *fields) boolean(name string, def bool) bool {
	switch v := f.m[name].(type) {
	case nil:
	case bool:
		return v
	default:
		f.fail(name, "boolean", v)
	}
	return def
}

func (f *fields) text(name string) string {
	s, _ := f.m[name].(string)
	return s
}

// common reads what all inference routes share.
func (f *fields) common(o Options) (*request, error) {
	r := &request{
		slot:            f.number(-1, "id_slot"),
		stream:          f.boolean("stream", false),
		progress:        f.boolean("return_progress", false),
		timingsPerToken: f.boolean("timings_per_token", false),
		ignoreEOS:       f.boolean("ignore_eos", false),
		returnTokens:    f.boolean("return_tokens", false),
		cachePrompt:     f.boolean("cache_prompt", true),
	}
	r.max = f.number(-1, "max_completion_tokens", "max_tokens", "n_predict")
	if r.max < 0 {
		r.max = f.number(-1, "n_predict")
	}
	if options, ok := f.m["stream_options"].(map[string]any); ok {
		r.usage, _ = options["include_usage"].(bool)
	}
	for _, name := range []string{"stop", "stop_sequences"} {
		switch v := f.m[name].(type) {
		case string:
			r.stop = append(r.stop, v)
		case []any:
			for _, e := range v {
				if s, ok := e.(string); ok && s != "" {
					r.stop = append(r.stop, s)
				}
			}
		}
	}
	if n := f.number(1, "n"); f.err == nil && (n < 1 || n > o.Slots) {
		f.err = badRequest("Field 'n': Value must be between 1 <= value <= %d, but got %d", o.Slots, n)
	}
	return r, f.err
}

// repeat gives a request with one prompt the number of choices it asks for.
func (f *fields) repeat(r *request) {
	for range f.number(1, "n") - 1 {
		r.prompts = append(r.prompts, bytes.Clone(r.prompts[0]))
	}
}

// promptField reads a prompt that is a text, a list of token ids, or a list of such.
func (f *fields) promptField(r *request) error {
	switch v := f.m["prompt"].(type) {
	case nil:
		return badRequest("[json.exception.out_of_range.403] key 'prompt' not found")
	case []any:
		if len(v) > 0 && jsonKind(v[0]) != "number" {
			r.list = true
			for _, e := range v {
				if err := r.add(e); err != nil {
					return err
				}
			}
			return nil
		}
		return r.add(v)
	default:
		return r.add(v)
	}
}

func (r *request) add(v any) error {
	switch p := v.(type) {
	case string:
		b := make([]byte, 0, len(p)+replyRoom)
		r.prompts = append(r.prompts, appendTokens(b, p))
	case []any:
		b := make([]byte, 0, len(p)+replyRoom)
		for _, id := range p {
			n, ok := id.(float64)
			if !ok {
				return badRequest("error: prompt must be a string or a list of tokens")
			}
			b = append(b, holdID(int(n)))
		}
		r.prompts = append(r.prompts, b)
	default:
		return badRequest("error: prompt must be a string or a list of tokens")
	}
	return nil
}

// fits is the error of a prompt that no slot can hold.
func fits(prompt []byte, context int) error {
	n := len(prompt)
	if n < context {
		return nil
	}
	e := badRequest("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", n, context)
	e.Type, e.Prompt, e.Context = "exceed_context_size_error", n, context
	return e
}

// cut tells how much of a generated text may be given out: up to the first stop text, which is returned, or up to what
// may yet become one.
func (r *request) cut(text string) (end int, word string) {
	end = len(text)
	for _, s := range r.stop {
		if i := strings.Index(text, s); i >= 0 && (i < end || word == "") {
			end, word = i, s
		}
	}
	if word != "" {
		return end, word
	}
	for _, s := range r.stop {
		for n := min(len(s)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, s[:n]) {
				end = min(end, len(text)-n)
				break
			}
		}
	}
	return end, ""
}

package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// key is a top-level member of a body that the gateway has to know of.
type key uint8

const (
	keyNone key = iota
	keyModel
	keyStream
	keyStreamOptions
	keyReturnProgress
	keyReturnTokens
	keyIDSlot
	keyN
	keyPromptCacheKey
	keyMetadata

	keyMessages // from here on: what a prompt is made of
	keySystem
	keyTools
	keyFunctions
	keyInput
	keyInstructions
	keyReasoning
	keyReasoningEffort
	keyTemplate
	keyTemplateKwargs
	keyPrompt
	keyInputExtra
	keyInputPrefix
	keyInputSuffix
	keyEnd
)

// keyOf names the key of a literal with quotes. Keys may be written with escapes; those are decoded, which no honest
// client makes us do.
func keyOf(lit []byte) key {
	if bytes.IndexByte(lit, '\\') >= 0 {
		s, _ := unquote(lit)
		return keyNamed([]byte(s))
	}
	return keyNamed(lit[1 : len(lit)-1])
}

func keyNamed(name []byte) key {
	switch string(name) {
	case "model":
		return keyModel
	case "stream":
		return keyStream
	case "stream_options":
		return keyStreamOptions
	case "return_progress":
		return keyReturnProgress
	case "return_tokens":
		return keyReturnTokens
	case "id_slot":
		return keyIDSlot
	case "n":
		return keyN
	case "prompt_cache_key":
		return keyPromptCacheKey
	case "metadata":
		return keyMetadata
	case "messages":
		return keyMessages
	case "system":
		return keySystem
	case "tools":
		return keyTools
	case "functions":
		return keyFunctions
	case "input":
		return keyInput
	case "instructions":
		return keyInstructions
	case "reasoning":
		return keyReasoning
	case "reasoning_effort":
		return keyReasoningEffort
	case "chat_template":
		return keyTemplate
	case "chat_template_kwargs":
		return keyTemplateKwargs
	case "prompt":
		return keyPrompt
	case "input_extra":
		return keyInputExtra
	case "input_prefix":
		return keyInputPrefix
	case "input_suffix":
		return keyInputSuffix
	}
	return keyNone
}

// member is one occurrence of a known key.
type member struct {
	key key
	val span
}

// facts are what the gateway knows of a body after one pass over it. They point into the body and hold no copy.
type facts struct {
	open  int // offset just behind the opening brace
	empty bool
	// seen lists the known members in order; a repeated key is listed each time and its last value counts, as in
	// every engine's own parser.
	seen  [24]member
	count int
	full  bool // there were more than seen can hold

	rename string // JSON text to stand for the model's name, "" = as the client wrote it
	// parts are the members a prompt is made of, from keyMessages on; the last of a name counts. Empty = absent.
	parts [keyEnd - keyMessages]span
	long  bool // somewhere in it is a \u or \/
}

// scan reads the facts of a body. Its errors are the client's.
func scan(body []byte) (facts, error) {
	f := facts{empty: true, open: bytes.IndexByte(body, '{') + 1}
	s := scanner{b: body, visit: func(k, v span) {
		f.empty = false
		name := keyOf(k.in(body))
		if name >= keyMessages {
			f.parts[name-keyMessages] = v
			return
		}
		if name == keyNone {
			return
		}
		if f.count == len(f.seen) {
			f.full = true
			return
		}
		f.seen[f.count] = member{name, v}
		f.count++
	}}
	bad := s.document()
	f.long = s.long
	if bad != nil {
		return f, &Error{Status: 400, Code: "invalid_json", Message: fmt.Sprintf("the request body is not valid JSON: %s (at byte %d)", bad.what, bad.at)}
	}
	if f.full {
		return f, &Error{Status: 400, Code: "invalid_json", Message: "the request body repeats the same fields too often; send each once"}
	}
	return f, nil
}

// last returns the value that counts for k, nil when the body has none.
func (f *facts) last(body []byte, k key) []byte {
	for i := f.count - 1; i >= 0; i-- {
		if f.seen[i].key == k {
			return f.seen[i].val.in(body)
		}
	}
	return nil
}

// part returns where the value of a member stands that the prompt is made of; false when the body has none.
func (f *facts) part(k key) (span, bool) {
	s := f.parts[k-keyMessages]
	return s, s.to > 0
}

// flag reads a boolean member; absent and null are false.
func (f *facts) flag(body []byte, k key, name string) (bool, error) {
	switch v := f.last(body, k); string(v) {
	case "true":
		return true, nil
	case "false", "null", "":
		return false, nil
	}
	return false, &Error{Status: 400, Param: name, Message: fmt.Sprintf("%q must be true or false", name)}
}

// maxModelName bounds a model name, and with it what goes into status rows and error texts.
const maxModelName = 512

// model reads the model's name.
func (f *facts) model(body []byte) (string, error) {
	v := f.last(body, keyModel)
	if v == nil || string(v) == "null" {
		return "", &Error{Status: 400, Param: "model", Code: "missing_model", Message: "the request names no model; set \"model\" to one of GET /v1/models"}
	}
	if len(v) > maxModelName {
		return "", &Error{Status: 400, Param: "model", Message: "\"model\" is too long"}
	}
	name, ok := unquote(v)
	if !ok {
		return "", &Error{Status: 400, Param: "model", Message: "\"model\" must be a string"}
	}
	return name, nil
}

// choices is how many answers the client wants of its prompt.
func (f *facts) choices(body []byte) int {
	n, err := strconv.Atoi(string(f.last(body, keyN)))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// userSession reads metadata.user_id as Claude Code writes it: a string that is itself JSON and names the session, or, in
// older versions, ends with it. What else stands there is a person.
func (f *facts) userSession(body []byte) string {
	v := f.last(body, keyMetadata)
	if v == nil || len(v) > 16<<10 {
		return ""
	}
	var meta struct {
		UserID string `json:"user_id"`
	}
	if json.Unmarshal(v, &meta) != nil {
		return ""
	}
	var user struct {
		SessionID string `json:"session_id"`
	}
	if json.Unmarshal([]byte(meta.UserID), &user) == nil {
		return user.SessionID
	}
	if at := strings.LastIndex(meta.UserID, "_session_"); at >= 0 && strings.HasPrefix(meta.UserID, "user_") {
		return meta.UserID[at+len("_session_"):]
	}
	return ""
}

package enginetest

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// A prompt is held as one byte a token: a plain byte is itself, and the named tokens 256… are the bytes from markBase
// on, which never occur in UTF-8. So the longest common prefix of two prompts is found at memory speed.
const markBase = 0xf8

// marks are the special tokens a prompt's text can hold, by id from 256.
var marks = [...]string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<|fim_prefix|>", "<|fim_suffix|>",
	"<|fim_middle|>"}

func mark(token int) byte { return byte(markBase + token - tokenEndOfText) }

// tokenID is the id of a held token.
func tokenID(b byte) int {
	if b >= markBase {
		return int(b) - markBase + tokenEndOfText
	}
	return int(b)
}

// holdID is the reverse of tokenID; ids that no byte stands for become padding.
func holdID(id int) byte {
	switch {
	case id >= 0 && id < markBase:
		return byte(id)
	case id >= tokenEndOfText && id < tokensNamed:
		return mark(id)
	}
	return mark(tokenPad)
}

// appendTokens tokenizes text.
func appendTokens(b []byte, text string) []byte {
	for {
		i := strings.Index(text, "<|")
		if i < 0 {
			return append(b, text...)
		}
		b = append(b, text[:i]...)
		text = text[i:]
		token, length := -1, 1
		for n, m := range marks {
			if strings.HasPrefix(text, m) {
				token, length = tokenEndOfText+n, len(m)
			}
		}
		if token < 0 {
			b = append(b, text[0])
		} else {
			b = append(b, mark(token))
		}
		text = text[length:]
	}
}

// detokenize is the text of tokens.
func detokenize(tokens []byte) string {
	var text strings.Builder
	text.Grow(len(tokens))
	for _, b := range tokens {
		if b < markBase {
			text.WriteByte(b)
		} else if n := int(b) - markBase; n < len(marks) {
			text.WriteString(marks[n])
		}
	}
	return strings.ToValidUTF8(text.String(), string(utf8.RuneError))
}

type message struct{ role, content string }

// renderChat is the ChatML template of the tiny models.
func renderChat(messages []message) []byte {
	n := 32
	for _, m := range messages {
		n += len(m.role) + len(m.content) + 8
	}
	b := make([]byte, 0, n+replyRoom)
	for _, m := range messages {
		b = append(b, mark(tokenTurnStart))
		b = append(b, m.role...)
		b = append(b, '\n')
		b = appendTokens(b, m.content)
		b = append(b, mark(tokenTurnEnd), '\n')
	}
	b = append(b, mark(tokenTurnStart))
	return append(b, "assistant\n"...)
}

// replyRoom is capacity left behind a prompt, so that the answer's tokens rarely move it.
const replyRoom = 512

// parseMessages reads the list of messages of a chat-like body.
func parseMessages(v any, name string) ([]message, error) {
	list, ok := v.([]any)
	if v == nil {
		return nil, badRequest("'%s' is required", name)
	}
	if !ok {
		return nil, badRequest("Expected '%s' to be an array", name)
	}
	messages := make([]message, 0, len(list)+1)
	for _, e := range list {
		m, ok := e.(map[string]any)
		role, isText := m["role"].(string)
		if !ok || !isText {
			if kind, _ := m["type"].(string); kind == "" {
				return nil, badRequest("Missing 'role' in message")
			}
			role = "tool" // an item of /v1/responses that is no message, such as a tool's output
		}
		messages = append(messages, message{role, contentText(m["content"])})
	}
	return messages, nil
}

// contentText flattens a message's content: a string, or parts whose texts are joined by line ends. What is no text is
// taken as its JSON, so that it counts and tells prompts apart.
func contentText(v any) string {
	switch c := v.(type) {
	case nil:
		return ""
	case string:
		return c
	case []any:
		parts := make([]string, len(c))
		for i, p := range c {
			part, _ := p.(map[string]any)
			if text, ok := part["text"].(string); ok {
				parts[i] = text
			} else {
				parts[i] = jsonText(p)
			}
		}
		return strings.Join(parts, "\n")
	}
	return jsonText(v)
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// prefixLen is the length of the longest common prefix.
func prefixLen(a, b []byte) int {
	n := min(len(a), len(b))
	const stride = 4096
	i := 0
	for i+stride <= n && string(a[i:i+stride]) == string(b[i:i+stride]) {
		i += stride
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// appendEvent appends a server-sent event of v; a name of "" leaves its line out.
func appendEvent(b []byte, name string, v any) []byte {
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	b = append(b, "data: "...)
	b = append(b, encode(v)...)
	return append(b, "\n\n"...)
}

// encode is JSON without the escapes for HTML, which the engine does not make either.
func encode(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("an answer that is no JSON: %v", err)) // made of plain values only
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// appendQuoted appends a JSON string.
func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, encode(s)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func plainFailure(b []byte, e apiError) []byte {
	return appendEvent(b, "", map[string]apiError{"error": e})
}

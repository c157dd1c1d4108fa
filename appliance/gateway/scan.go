package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// maxDepth bounds nesting. encoding/json stops at 10,000; chat templates and schema compilers in engines recurse, so a
// hostile body must be stopped well before it can overflow a stack behind us.
const maxDepth = 512

// span is a half-open range of bytes in a body.
type span struct{ from, to int }

// in returns the bytes of the span.
func (s span) in(b []byte) []byte { return b[s.from:s.to] }

// A fault says what is wrong with a JSON text and where.
type fault struct {
	at   int
	what string
}

// eachMember checks that b is one JSON object and calls visit for each of its own members, in order, with the key as
// it stands there (quotes and escapes included). It allocates nothing. The grammar is that of encoding/json: whatever
// that accepts as an object is accepted here, up to maxDepth, and nothing else is.
func eachMember(b []byte, visit func(key, value span)) *fault {
	s := scanner{b: b, visit: visit}
	return s.document()
}

func (s *scanner) document() *fault {
	b, i := s.b, s.space(0)
	if i >= len(b) || b[i] != '{' {
		return &fault{i, "the body is not a JSON object"}
	}
	if i = s.object(i, 1); i < 0 {
		return s.fault
	}
	if i = s.space(i); i < len(b) {
		return &fault{i, "there is text after the JSON object"}
	}
	return nil
}

// scanner walks a JSON text. Its methods take the offset of what they read and return the offset behind it, or -1
// once fault is set.
type scanner struct {
	b     []byte
	visit func(key, value span)
	fault *fault
	long  bool // there was an escape that need not be, or not so long: \u or \/
}

func (s *scanner) fail(at int, what string) int {
	if s.fault == nil {
		s.fault = &fault{at, what}
	}
	return -1
}

func (s *scanner) space(i int) int {
	for i < len(s.b) && (s.b[i] == ' ' || s.b[i] == '\n' || s.b[i] == '\r' || s.b[i] == '\t') {
		i++
	}
	return i
}

// at returns the byte at i, 0 behind the end: no JSON token is a zero byte.
func (s *scanner) at(i int) byte {
	if i < len(s.b) {
		return s.b[i]
	}
	return 0
}

func (s *scanner) value(i, depth int) int {
	switch c := s.at(i); {
	case c == '"':
		return s.str(i)
	case c == '{':
		return s.object(i, depth+1)
	case c == '[':
		return s.array(i, depth+1)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	}
	return s.fail(i, "a value is missing or malformed")
}

func (s *scanner) object(i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "the JSON is nested too deeply")
	}
	if i = s.space(i + 1); s.at(i) == '}' {
		return i + 1
	}
	for {
		if s.at(i) != '"' {
			return s.fail(i, "an object key is missing")
		}
		key := span{i, s.str(i)}
		if key.to < 0 {
			return -1
		}
		if i = s.space(key.to); s.at(i) != ':' {
			return s.fail(i, "a colon is missing after an object key")
		}
		i = s.space(i + 1)
		val := span{i, s.value(i, depth)}
		if val.to < 0 {
			return -1
		}
		if depth == 1 {
			s.visit(key, val)
		}
		i = s.space(val.to)
		switch s.at(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(i, "an object is not closed")
		}
	}
}

func (s *scanner) array(i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "the JSON is nested too deeply")
	}
	if i = s.space(i + 1); s.at(i) == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth); i < 0 {
			return -1
		}
		i = s.space(i)
		switch s.at(i) {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return s.fail(i, "an array is not closed")
		}
	}
}

func (s *scanner) literal(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		return s.fail(i, "a value is missing or malformed")
	}
	return i + len(word)
}

func (s *scanner) number(i int) int {
	if s.at(i) == '-' {
		i++
	}
	switch c := s.at(i); {
	case c == '0':
		i++
	case c >= '1' && c <= '9':
		i = s.digits(i)
	default:
		return s.fail(i, "a number is malformed")
	}
	if s.at(i) == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		i++
		if c := s.at(i); c == '+' || c == '-' {
			i++
		}
		i = s.digits(i)
	}
	return i
}

// digits reads one digit or more.
func (s *scanner) digits(i int) int {
	from := i
	for s.at(i) >= '0' && s.at(i) <= '9' {
		i++
	}
	if i == from {
		return s.fail(i, "a number is malformed")
	}
	return i
}

// str reads a string from its opening quote.
func (s *scanner) str(i int) int {
	for i++; ; {
		i = plainEnd(s.b, i)
		switch c := s.at(i); {
		case i >= len(s.b):
			return s.fail(i, "a string is not closed")
		case c == '"':
			return i + 1
		case c == '\\':
			if i = s.escape(i + 1); i < 0 {
				return -1
			}
		default:
			return s.fail(i, "a string holds a raw control character")
		}
	}
}

func (s *scanner) escape(i int) int {
	switch s.at(i) {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case '/':
		s.long = true
		return i + 1
	case 'u':
		s.long = true
		for k := i + 1; k <= i+4; k++ {
			c := s.at(k) | 0x20
			if !(s.at(k) >= '0' && s.at(k) <= '9' || c >= 'a' && c <= 'f') {
				return s.fail(i, "a string holds a malformed escape")
			}
		}
		return i + 5
	}
	return s.fail(i, "a string holds a malformed escape")
}

// plainEnd returns the offset of the first quote, backslash or control character from i on, len(b) when there is none.
// It looks at eight bytes at a time: nearly all of a prompt is plain text.
func plainEnd(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// unquote decodes a JSON string literal; false when lit is none.
func unquote(lit []byte) (string, bool) {
	if len(lit) < 2 || lit[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(lit, '\\') < 0 && isASCII(lit) {
		return string(lit[1 : len(lit)-1]), true
	}
	var s string
	return s, json.Unmarshal(lit, &s) == nil
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

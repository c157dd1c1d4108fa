package gateway

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// str puts a string.
func (r *promptReader) str(i int) int {
	i++
	switch {
	case r.system && bytes.HasPrefix(r.b[i:], []byte(billing)):
		if i = r.line(i); r.b[i] == '"' {
			return i + 1
		}
	case r.block == 0 && isDataURL(r.b[i:]):
		return r.data(i - 1)
	}
	return r.text(i)
}

// line finds the end of a line within a string, or the quote that ends it.
func (r *promptReader) line(i int) int {
	for {
		if i = plainEnd(r.b, i); r.b[i] == '"' {
			return i
		}
		if i += 2; r.b[i-1] == 'n' {
			return i
		}
	}
}

// data puts a string that is one part of data.
func (r *promptReader) data(i int) int {
	text := r.p.whole.text
	i = r.text(i + 1)
	r.p.whole.text = text
	r.p.whole.data++
	return i
}

// text puts the rest of a string and its length. The form that counts is the shortest JSON has for it: a string as good as
// always comes in that form, and is then put as it stands.
func (r *promptReader) text(i int) int {
	r.mark(markText)
	before, end := r.written, r.closing(i)
	raw := r.b[i:end]
	if r.f.long && mayShorten(raw) {
		r.shortened(i, end)
	} else {
		r.put(raw)
	}
	r.size(r.written - before)
	return end + 1
}

// mayShorten tells whether there is a backslash before a u or a slash, eight bytes at a time.
func mayShorten(raw []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	zero := func(w uint64) uint64 { return (w - ones) &^ w } // its high bits are set where w has a zero byte, and perhaps above one
	for ; len(raw) > 8; raw = raw[8:] {
		w, next := binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[1:])
		if zero(w^ones*'\\')&(zero(next^ones*'u')|zero(next^ones*'/'))&highs != 0 {
			return true
		}
	}
	return bytes.Contains(raw, []byte(`\u`)) || bytes.Contains(raw, []byte(`\/`))
}

// closing finds the quote that ends a string.
func (r *promptReader) closing(i int) int {
	for from := i; ; i++ {
		i += bytes.IndexByte(r.b[i:], '"')
		slashes := 0
		for i-slashes > from && r.b[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// shortened puts a string whose escapes may be longer than they need to be.
func (r *promptReader) shortened(i, end int) {
	from := i
	for i < end {
		n := bytes.IndexByte(r.b[i:end], '\\')
		if n < 0 {
			break
		}
		i += n
		switch r.b[i+1] {
		case 'u':
			r.put(r.b[from:i])
			i = r.rune(i + 1)
			from = i
		case '/':
			r.put(r.b[from:i])
			from = i + 1
			i += 2
		default:
			i += 2
		}
	}
	r.put(r.b[from:end])
}

// rune puts what the four digits behind i mean, or together with those of another half. A half alone stands for the
// replacement character, as in encoding/json.
func (r *promptReader) rune(i int) int {
	c := hex4(r.b[i+1:])
	i += 5
	if utf16.IsSurrogate(c) {
		low := rune(0)
		if r.b[i] == '\\' && r.b[i+1] == 'u' {
			low = hex4(r.b[i+2:])
		}
		if c = utf16.DecodeRune(c, low); c != utf8.RuneError {
			i += 6
		}
	}
	r.put(appendShortest(r.few[:0], c))
	return i
}

// appendShortest writes a character as it stands in a JSON string when nothing is escaped that need not be.
func appendShortest(b []byte, c rune) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', byte(c))
	case '\n':
		return append(b, `\n`...)
	case '\t':
		return append(b, `\t`...)
	case '\r':
		return append(b, `\r`...)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	}
	if c < ' ' {
		const digits = "0123456789abcdef"
		return append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
	}
	return utf8.AppendRune(b, c)
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (c rune) {
	for _, d := range b[:4] {
		if d >= 'A' {
			d += 9 // of a letter in either case the low half is now its value
		}
		c = c<<4 | rune(d&15)
	}
	return c
}

func isDataURL(b []byte) bool {
	return bytes.HasPrefix(b, []byte("data:")) && bytes.Contains(b[:min(len(b), 128)], []byte(";base64,"))
}

// minBase64 is from where on a string may be taken for data: a short one costs nothing as text.
const minBase64 = 256

// isBase64 tells whether a JSON string is long and begins as base64 does.
func isBase64(b []byte) bool {
	if len(b) < minBase64 || b[0] != '"' {
		return false
	}
	for _, c := range b[1:minBase64] {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '+' && c != '/' && c != '=' && c != '\\' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

package engine

// printedMax is how many bytes are kept of what a program prints: the help of llama-server is some 60 KiB.
const printedMax = 1 << 20

// Printed keeps the beginning of what a program prints, 1 MiB, and swallows the rest, so that the program never blocks.
// The zero value is ready; it is for one goroutine.
type Printed struct{ text []byte }

func (p *Printed) Write(b []byte) (int, error) {
	room := printedMax - len(p.text)
	p.text = append(p.text, b[:min(room, len(b))]...)
	return len(b), nil
}

func (p *Printed) String() string { return string(p.text) }

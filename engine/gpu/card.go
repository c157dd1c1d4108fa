package gpu

import (
	"strings"
	"unicode"

	"viiwork/engine"
)

// Card is one card of this machine.
type Card struct {
	Index       int // host index within its family: what a model's gpus name
	Accel       engine.Accel
	Name        string   // for the owner's eyes
	Memory      *int64   // bytes that engines may take on it; nil = unknown
	Gfx         string   // AMD: gfx906; "" = unknown
	PCI         string   // 0000:03:00.0; "" = unknown
	RenderMinor int      // AMD: number of its /dev/dri/renderD node; 0 = unknown
	UUID        string   // NVIDIA; "" = unknown
	Integrated  bool     // part of the processor: listed, but not for models
	Split       bool     // NVIDIA: cut into MIG instances, cannot run a model as a whole
	Instances   []string // NVIDIA: kinds of those, "1g.20gb"
	Unified     bool     // its memory is the system's: what engines take on it the rest of the machine lacks
	Display     bool     // a screen is attached, which takes some of its memory
	Reading     Reading

	whole bool // NVIDIA: the driver says that it is not in MIG mode
}

// Reading is how a card is at this moment. What the driver does not tell is nil; 0 is a figure.
type Reading struct {
	Used     *int64   // bytes of its memory, by all programs
	Busy     *float64 // 0…1
	Celsius  *float64
	Watts    *float64
	CapWatts *float64 // the power limit set now
	Throttle *Throttle
}

// Fault is something wrong with a card or its driver, and the way out.
type Fault struct {
	ID    string // stable; docs/hardware.md lists them
	Accel engine.Accel
	PCI   string // of the card, when only one is concerned
	Text  string
	Fix   string
	Minor bool // the other cards work, and this one may be meant so
}

const (
	cardsMax = 256 // of a family; a machine has 16
	nameMax  = 96  // characters
)

// cleanName makes what a tool calls a card fit for a terminal and a status page.
func cleanName(name string) string {
	runes := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(name, "?")), " "))
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '?'
		}
	}
	return string(runes[:min(len(runes), nameMax)])
}

// figure is n, or nil outside of what a card can be at.
func figure(n, least, most float64) *float64 {
	if !(n >= least && n <= most) { // also when it is no number
		return nil
	}
	return &n
}

func fraction(percent float64) *float64 { return figure(percent/100, 0, 1) }
func celsius(n float64) *float64        { return figure(n, -50, 200) }
func watts(n float64) *float64          { return figure(n, 0, 5000) }

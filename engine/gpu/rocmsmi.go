package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"viiwork/engine"
)

// rocmSMI asks AMD's own tool, for machines where the kernel's files are out of reach.
func (h Host) rocmSMI(ctx context.Context) ([]Card, []Fault) {
	out, err := h.Run(ctx, "rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showuse", "--showtemp", "--showpower", "--showmaxpower", "--showbus", "--json")
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	cards := rocmJSON(out)
	if len(cards) == 0 {
		if table, err := h.Run(ctx, "rocm-smi"); err == nil {
			cards = rocmTable(string(table))
		}
	}
	if len(cards) == 0 && err != nil {
		return nil, []Fault{toolFault(engine.AccelROCm, "rocm-smi", err)}
	}
	return cards, nil
}

// rocmJSON reads an object with a member for each card; all values are strings, and names change with the version.
// Warnings may stand before it. The tool's numbers are those of the graphics side, so a card's index is its rank.
func rocmJSON(out []byte) []Card {
	at := bytes.IndexByte(out, '{')
	if at < 0 {
		return nil
	}
	var doc map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader(out[at:])).Decode(&doc) != nil {
		return nil
	}
	byNumber := map[int]rocmRow{}
	for key, raw := range doc {
		digits, isCard := strings.CutPrefix(key, "card")
		n, err := strconv.Atoi(digits)
		var values map[string]any
		if !isCard || err != nil || n < 0 || json.Unmarshal(raw, &values) != nil || len(values) == 0 {
			continue
		}
		row := rocmRow{}
		for name, value := range values {
			if text, isText := value.(string); isText {
				row[strings.ToLower(name)] = strings.TrimSpace(text)
			}
		}
		byNumber[n] = row
	}
	return ranked(byNumber)
}

// rocmRow is what the tool says of one card, by the lower-case names of its figures.
type rocmRow map[string]string

func ranked(byNumber map[int]rocmRow) []Card {
	var cards []Card
	for _, n := range slices.Sorted(maps.Keys(byNumber)) {
		if len(cards) < cardsMax {
			cards = append(cards, byNumber[n].card(len(cards)))
		}
	}
	return cards
}

func (r rocmRow) first(names ...string) string {
	for _, name := range names {
		if v := r[name]; v != "" && v != "N/A" {
			return v
		}
	}
	return ""
}

func (r rocmRow) card(index int) Card {
	gfx := r.first("gfx version")
	if !strings.HasPrefix(gfx, "gfx") || len(gfx) > 12 {
		gfx = ""
	}
	name := cleanName(r.first("card series", "device name", "card model"))
	if name == "" {
		name = "card"
	}
	return Card{
		Index:      index,
		Accel:      engine.AccelROCm,
		Name:       cleanName(amdName(name, gfx)),
		Memory:     wholeBytes(r.first("vram total memory (b)"), 1),
		Gfx:        cleanName(gfx),
		PCI:        strings.ToLower(known(r.first("pci bus"))),
		Integrated: integrated(gfx),
		Reading: Reading{
			Used:     wholeBytes(r.first("vram total used memory (b)"), 0),
			Busy:     number(r.first("gpu use (%)", "gpu%"), fraction),
			Celsius:  number(r.first("temperature (sensor edge) (c)", "temp"), celsius),
			Watts:    number(r.first("current socket graphics package power (w)", "average graphics package power (w)", "avgpwr"), watts),
			CapWatts: number(r.first("max graphics package power (w)", "pwrcap"), watts),
		},
	}
}

func wholeBytes(field string, least int64) *int64 {
	n, err := strconv.ParseInt(field, 10, 64)
	if err != nil || n < least || n > memoryMax {
		return nil
	}
	return &n
}

// rocmTable reads the table that older versions print. It tells a share of the memory, never its size.
func rocmTable(text string) []Card {
	byNumber := map[int]rocmRow{}
	var head []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if fields[0] == "GPU" {
			head = fields
			continue
		}
		n, err := strconv.Atoi(fields[0])
		if head == nil || err != nil || n < 0 || len(byNumber) == cardsMax {
			continue
		}
		row := rocmRow{}
		if len(fields) == len(head) { // else some column holds more than a word, and none is sure
			for i, name := range head {
				row[strings.ToLower(name)] = fields[i]
			}
		}
		byNumber[n] = row
	}
	return ranked(byNumber)
}

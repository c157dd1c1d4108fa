package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"viiwork/engine"
)

// macCard is a card as system_profiler describes it. It tells no memory, and lists screens inside their card.
type macCard struct {
	name, vendor, cores string
	screen              bool
}

// metal lists the card of a Mac. Only Apple's own can run models: the memory of an Intel Mac's card, though "Metal:
// supported" there too, is not the processor's.
func (h Host) metal(ctx context.Context) ([]Card, []Fault) {
	found, err := h.profile(ctx)
	if err != nil {
		return nil, []Fault{toolFault(engine.AccelMetal, "system_profiler", err)}
	}
	memory := h.workingSet(ctx)
	var cards []Card
	var faults []Fault
	for _, c := range found {
		if !strings.Contains(strings.ToLower(c.vendor), "apple") && !strings.HasPrefix(c.name, "Apple ") {
			faults = append(faults, Fault{
				ID: "intel_mac", Accel: engine.AccelMetal,
				Text: strings.TrimSpace("the card of this Mac ("+c.name+") is not Apple's own") + ": engines use Apple silicon only",
				Fix:  "serve small models without a card, or use a Mac with Apple silicon",
			})
			continue
		}
		name := c.name
		if n, err := strconv.Atoi(c.cores); err == nil && n > 0 {
			name += " (" + c.cores + " cores)"
		}
		cards = append(cards, Card{
			Index: len(cards), Accel: engine.AccelMetal, Name: cleanName(name), Memory: memory, Unified: true, Display: c.screen,
		})
	}
	return cards, faults
}

// profile asks for JSON, and for text where that is not known: macOS before 10.15.
func (h Host) profile(ctx context.Context) ([]macCard, error) {
	out, err := h.Run(ctx, "system_profiler", "SPDisplaysDataType", "-json")
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if cards, ok := profileJSON(out); ok {
		return cards, nil
	}
	out, err = h.Run(ctx, "system_profiler", "SPDisplaysDataType")
	if err != nil {
		return nil, err
	}
	return profileText(string(out)), nil
}

func profileJSON(out []byte) ([]macCard, bool) {
	at := bytes.IndexByte(out, '{')
	if at < 0 {
		return nil, false
	}
	var doc struct {
		Displays []struct {
			Name    string            `json:"_name"`
			Model   string            `json:"sppci_model"`
			Vendor  string            `json:"spdisplays_vendor"`
			Cores   string            `json:"sppci_cores"`
			Screens []json.RawMessage `json:"spdisplays_ndrvs"`
		} `json:"SPDisplaysDataType"`
	}
	if json.NewDecoder(bytes.NewReader(out[at:])).Decode(&doc) != nil || doc.Displays == nil {
		return nil, false
	}
	var cards []macCard
	for _, d := range doc.Displays[:min(len(doc.Displays), cardsMax)] {
		name := d.Model
		if name == "" {
			name = d.Name
		}
		cards = append(cards, macCard{cleanName(name), cleanName(d.Vendor), d.Cores, len(d.Screens) > 0})
	}
	return cards, true
}

// profileText counts models of chips: screens have names too, but none of those.
func profileText(text string) []macCard {
	var cards []macCard
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		if key == "Chipset Model" {
			if len(cards) == cardsMax {
				break
			}
			cards = append(cards, macCard{name: cleanName(value)})
		}
		if len(cards) == 0 {
			continue
		}
		switch c := &cards[len(cards)-1]; key {
		case "Vendor":
			c.vendor = cleanName(value)
		case "Total Number of Cores":
			c.cores = value
		case "Displays":
			c.screen = true
		}
	}
	return cards
}

// workingSet is how much of its memory a Mac lets its card use: what the owner set, else macOS's own share, which is two
// thirds up to 32 GiB and three quarters above. That share is what engines have logged; Apple documents none, and gives
// the largest Macs more. [WorkingSet] is the truth, once an engine runs.
func (h Host) workingSet(ctx context.Context) *int64 {
	total := h.Memory(ctx)
	if total == nil || *total < 1<<20 { // no Mac has so little: it is no figure
		return nil
	}
	if set := h.sysctl(ctx, "iogpu.wired_limit_mb"); set != nil && *set <= *total>>20 { // 0, the default, reads as nil
		limit := *set << 20
		return &limit
	}
	share := *total / 3 * 2
	if *total > 32<<30 {
		share = *total / 4 * 3
	}
	return &share
}

// sysctl reads a positive number.
func (h Host) sysctl(ctx context.Context, name string) *int64 {
	out, err := h.Run(ctx, "sysctl", "-n", name)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil || n <= 0 || n > memoryMax {
		return nil
	}
	return &n
}

var workingSetLine = regexp.MustCompile(`recommendedMaxWorkingSetSize\s*=\s*([0-9]{1,9}\.[0-9]{2}) MB`)

// WorkingSet finds in an engine's log how many bytes Metal lets it use. The log's MB are a million bytes: so read, the
// figures of Macs are whole gibibytes.
func WorkingSet(log string) (bytes int64, found bool) {
	m := workingSetLine.FindStringSubmatch(log)
	if m == nil {
		return 0, false
	}
	hundredths, err := strconv.ParseInt(strings.Replace(m[1], ".", "", 1), 10, 64)
	if err != nil || hundredths <= 0 || hundredths > memoryMax/10_000 {
		return 0, false
	}
	return hundredths * 10_000, true
}

package gpu

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"viiwork/engine"
)

// smiForm is one way to ask nvidia-smi, and how its answer reads. What it prints besides cards is returned as it is:
// faults stand among them.
type smiForm struct {
	args []string
	read func(text string) (cards []Card, rest string)
}

const (
	smiNew = smiAll + ",clocks_event_reasons.active"
	smiOld = smiAll + ",clocks_throttle_reasons.active" // its name before driver 535
	smiAll = "index,name,uuid,memory.total,pci.bus_id,memory.used,utilization.gpu,temperature.gpu,power.draw,power.limit,display_active,mig.mode.current"
	smiFew = "index,name,uuid,memory.total,pci.bus_id"
)

// smiForms are tried in turn while the tool does not understand: an old one refuses a whole query for one column that it
// does not know, and the very old have no queries.
func smiForms() []smiForm {
	csv := func(columns string) smiForm {
		return smiForm{
			args: []string{"--query-gpu=" + columns, "--format=csv,nounits"},
			read: func(text string) ([]Card, string) { return smiCSV(text, strings.Split(columns, ",")) },
		}
	}
	return []smiForm{csv(smiNew), csv(smiOld), csv(smiAll), csv(smiFew), {args: []string{"-q"}, read: smiSections}, {read: smiTable}}
}

// misunderstood tells that nvidia-smi is too old for what it was asked.
func misunderstood(text string) bool {
	return strings.Contains(text, "not a valid field") || strings.Contains(text, "Invalid combination of input arguments") ||
		strings.Contains(text, "is not recognized")
}

// smiCSV reads rows of the given columns, or of those that a head names. A row is a card if it begins with an index.
func smiCSV(text string, columns []string) (cards []Card, rest string) {
	var others strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if fields[0] == "index" {
			columns = smiHead(fields)
			continue
		}
		index, err := strconv.Atoi(fields[0])
		if err != nil || index < 0 || index >= cardsMax || len(fields) < 4 || len(columns) < 4 || len(cards) == cardsMax {
			others.WriteString(line)
			continue
		}
		if more := len(fields) - len(columns); more > 0 { // a name with a comma in it
			fields = append([]string{fields[0], strings.Join(fields[1:2+more], ", ")}, fields[2+more:]...)
		}
		row := smiRow{}
		for i := range min(len(fields), len(columns)) {
			row[columns[i]] = fields[i]
		}
		cards = append(cards, row.card(index))
	}
	return cards, others.String()
}

// smiHead takes the units off a head's names: "memory.total [MiB]".
func smiHead(fields []string) []string {
	for i, field := range fields {
		fields[i], _, _ = strings.Cut(field, " ")
	}
	return fields
}

// smiRow is what nvidia-smi says of one card, by the names of its CSV columns.
type smiRow map[string]string

func (r smiRow) card(index int) Card {
	card := Card{
		Index:   index,
		Accel:   engine.AccelCUDA,
		Name:    cleanName(r["name"]),
		Memory:  mebibytes(r["memory.total"], 1),
		PCI:     known(r["pci.bus_id"]),
		UUID:    uuid(r["uuid"]),
		Display: enabled(r["display_active"]),
		Split:   enabled(r["mig.mode.current"]),
		Reading: Reading{
			Used:     mebibytes(r["memory.used"], 0),
			Busy:     number(r["utilization.gpu"], fraction),
			Celsius:  number(r["temperature.gpu"], celsius),
			Watts:    number(r["power.draw"], watts),
			CapWatts: number(r["power.limit"], watts),
			Throttle: nvReasons(cmp.Or(r["clocks_event_reasons.active"], r["clocks_throttle_reasons.active"])),
		},
	}
	if mode, told := r["mig.mode.current"]; told && !card.Split && mode != "" {
		card.whole = true
	}
	card.Unified = card.Memory == nil && unifiedName.MatchString(card.Name)
	return card
}

// unifiedName knows the NVIDIA processors whose cards have no memory of their own. A card that merely does not tell its
// memory must not be taken for one of them.
var unifiedName = regexp.MustCompile(`\b(GB10|Thor|Orin|Xavier|Tegra)\b`)

// mebibytes reads a figure; [N/A], N/A, [Not Supported], ERR! and whatever else is no number are unknown.
func mebibytes(field string, least int64) *int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(field, " MiB"), 10, 64)
	if err != nil || n < least || n > memoryMax>>20 {
		return nil
	}
	n <<= 20
	return &n
}

// number reads a figure with or without its unit; whatever else it is, it is unknown.
func number(field string, as func(float64) *float64) *float64 {
	field, _, _ = strings.Cut(strings.TrimSpace(field), " ")
	n, err := strconv.ParseFloat(strings.TrimRight(field, "%CWc"), 64)
	if err != nil {
		return nil
	}
	return as(n)
}

func enabled(field string) bool { return field == "Enabled" }

func uuid(field string) string {
	if !strings.HasPrefix(field, "GPU-") || len(field) > 64 {
		return ""
	}
	return cleanName(field)
}

var busID = regexp.MustCompile(`\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]\b`)

// known returns a bus id as it is, and "" for whatever stands for an unknown one.
func known(field string) string {
	if found := busID.FindString(field); found == field {
		return field
	}
	return ""
}

// instances reads `nvidia-smi -L`: MIG instances are listed indented below their card. It returns their kinds by card.
func instances(text string) map[int][]string {
	found := map[int][]string{}
	card := -1
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "GPU "); ok {
			number, _, _ := strings.Cut(rest, ":")
			card = -1
			if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < cardsMax {
				card = n
			}
			continue
		}
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "MIG" && card >= 0 && len(found[card]) < 16 { // a card has 7 at most
			found[card] = append(found[card], cleanName(fields[1]))
		}
	}
	return found
}

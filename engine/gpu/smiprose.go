package gpu

import (
	"regexp"
	"strconv"
	"strings"
)

// sectionKeys are the lines of `nvidia-smi -q` that matter, by section, and the columns they stand for.
var sectionKeys = map[string]string{
	"/Product Name":                          "name",
	"/GPU UUID":                              "uuid",
	"/Display Active":                        "display_active",
	"MIG Mode/Current":                       "mig.mode.current",
	"FB Memory Usage/Total":                  "memory.total",
	"FB Memory Usage/Used":                   "memory.used",
	"Utilization/Gpu":                        "utilization.gpu",
	"Utilization/GPU":                        "utilization.gpu",
	"Temperature/GPU Current Temp":           "temperature.gpu",
	"Power Readings/Power Draw":              "power.draw",
	"Power Readings/Power Limit":             "power.limit",
	"GPU Power Readings/Power Draw":          "power.draw",
	"GPU Power Readings/Power Limit":         "power.limit",
	"GPU Power Readings/Average Power Draw":  "power.draw",
	"GPU Power Readings/Current Power Limit": "power.limit",
}

// smiSections reads the long form (-q, -a). Cards have no index there: they come in its order.
func smiSections(text string) (cards []Card, rest string) {
	var row smiRow
	var others strings.Builder
	section := ""
	end := func() {
		if row != nil && len(cards) < cardsMax {
			cards = append(cards, row.card(len(cards)))
		}
		row = nil
	}
	for line := range strings.Lines(text) {
		key, value, figure := strings.Cut(line, " : ")
		name := strings.TrimSpace(key)
		switch indent := len(line) - len(strings.TrimLeft(line, " ")); {
		case strings.HasPrefix(line, "GPU ") && known(strings.TrimSpace(line[4:])) != "":
			end()
			row, section = smiRow{"pci.bus_id": strings.TrimSpace(line[4:])}, ""
		case row == nil || indent == 0:
			others.WriteString(line)
		case !figure:
			section = name
		default:
			if indent <= 4 {
				section = ""
			}
			if column := sectionKeys[section+"/"+name]; column != "" && row[column] == "" {
				row[column] = strings.TrimSpace(value)
			}
		}
	}
	end()
	return cards, others.String()
}

// A card has three lines in the table that nvidia-smi prints when asked nothing: who it is, how it is, its MIG mode.
var (
	tableCard   = regexp.MustCompile(`^\|\s+(\d{1,3})\s+(\S.*?)\s+(?:On|Off|N/A)\s*\|\s*(\S+)\s+(On|Off|N/A)\s*\|`)
	tableHeat   = regexp.MustCompile(`\s(\d+)C\s`)
	tablePower  = regexp.MustCompile(`\s(\d+|N/A)W?\s*/\s*(\d+|N/A)W?\s*\|`)
	tableMemory = regexp.MustCompile(`\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|`)
	tableBusy   = regexp.MustCompile(`\|\s*(\d+)%\s`)
	tableMIG    = regexp.MustCompile(`\|\s*Enabled\*?\s*\|\s*$`)
)

// smiTable reads that table. Its figures are rounded; names are cut short.
func smiTable(text string) (cards []Card, rest string) {
	var row smiRow
	var others strings.Builder
	index := 0
	end := func() {
		if row != nil && index < cardsMax && len(cards) < cardsMax {
			cards = append(cards, row.card(index))
		}
		row = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := tableCard.FindStringSubmatch(line); m != nil && known(m[3]) != "" {
			end()
			index, _ = strconv.Atoi(m[1])
			row = smiRow{"name": m[2], "pci.bus_id": m[3]}
			if m[4] == "On" {
				row["display_active"] = "Enabled"
			}
			continue
		}
		if row == nil || !strings.HasPrefix(line, "|") {
			end()
			others.WriteString(line + "\n")
			continue
		}
		row.fill(line)
	}
	end()
	return cards, others.String()
}

// fill takes what the further lines of a card in the table hold.
func (r smiRow) fill(line string) {
	for _, c := range []struct {
		pattern *regexp.Regexp
		columns []string
	}{
		{tableHeat, []string{"temperature.gpu"}},
		{tablePower, []string{"power.draw", "power.limit"}},
		{tableMemory, []string{"memory.used", "memory.total"}},
		{tableBusy, []string{"utilization.gpu"}},
	} {
		if m := c.pattern.FindStringSubmatch(line); m != nil {
			for i, column := range c.columns {
				r[column] = m[i+1]
			}
		}
	}
	if tableMIG.MatchString(line) {
		r["mig.mode.current"] = "Enabled"
	}
}

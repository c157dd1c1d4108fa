package bench

import (
	"encoding/csv"
	"io"
	"strconv"
)

// KVCSV writes what was measured of pairs as it comes, a row for each move. It is not safe for concurrent use.
type KVCSV struct{ rows }

var kvColumns = []string{"from", "to", "planned_tokens", "move", "prompt_tokens", "cached_tokens", "class", "route", "cold_s", "moved_s", "save_ms", "state_bytes",
	"fetch_ms", "assemble_ms", "restore_ms", "bytes", "path", "proved", "refused", "error"}

// NewKVCSV begins a file with its head.
func NewKVCSV(w io.Writer) (*KVCSV, error) {
	c := &KVCSV{rows{csv.NewWriter(w)}}
	return c, c.write(kvColumns)
}

// Add writes the two moves of a size: there, and back. What is not known is empty.
func (c *KVCSV) Add(p KVPair, s KVSize) error {
	if err := c.write(kvRow([]string{p.From, p.To, strconv.Itoa(s.Planned), "there"}, s, s.There, s.Cold)); err != nil || s.Error != "" {
		return err
	}
	return c.write(kvRow([]string{p.To, p.From, strconv.Itoa(s.Planned), "back"}, s, s.Back, s.Begin))
}

// kvRow goes on with a row of which the first columns are there.
func kvRow(row []string, s KVSize, m KVMove, cold float64) []string {
	row = append(row, make([]string, len(kvColumns)-len(row))...)
	row[4], row[5] = known(m.Prompt), known(m.Cached)
	row[18], row[19] = strconv.Itoa(s.Refused), s.Error
	if s.Error != "" {
		return row
	}
	copy(row[6:], []string{m.Class, m.Route, decimal(cold), decimal(m.TTFT)})
	if m.Save != nil {
		row[10], row[11] = decimal(m.Save.MS), strconv.FormatInt(m.Save.Bytes, 10)
	}
	if i := m.Import; i != nil {
		copy(row[12:], []string{decimal(i.Fetch), decimal(i.Assemble), decimal(i.Restore), strconv.FormatInt(i.Bytes, 10), i.Path, strconv.FormatBool(i.Proved)})
	}
	return row
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }

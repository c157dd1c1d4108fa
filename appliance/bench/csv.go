package bench

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"
)

// CSV writes turns as they end, a row each. It is not safe for concurrent use.
type CSV struct{ rows }

var columns = []string{"at_s", "session", "turn", "kind", "named", "entry", "node", "backend", "route", "key", "prompt_tokens", "cached_tokens",
	"had_tokens", "output_tokens", "class", "ttft_s", "took_s", "queue_ms", "refusals", "moved", "error"}

// NewCSV begins a file with its head.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{rows{csv.NewWriter(w)}}
	return c, c.write(columns)
}

// Add writes a turn. What is not known is empty.
func (c *CSV) Add(t Turn) error {
	queue, class, ttft := "", "", ""
	if t.Queue >= 0 {
		queue = strconv.FormatFloat(float64(t.Queue)/float64(time.Millisecond), 'f', 1, 64)
	}
	if t.Error == "" {
		class, ttft = t.Class().String(), seconds(t.TTFT)
	}
	return c.write([]string{seconds(t.At), strconv.Itoa(t.Session), strconv.Itoa(t.Nr), t.Kind, strconv.FormatBool(t.Named), t.Entry, t.Node, t.Backend, t.Route, t.Key,
		known(t.Prompt), known(t.Cached), strconv.Itoa(t.Had), known(t.Output), class, ttft, seconds(t.Took), queue, strconv.Itoa(t.Refusals), t.Moved.String(), t.Error})
}

// rows passes each row on at once: what was measured before a machine dies is there.
type rows struct{ w *csv.Writer }

func (r rows) write(row []string) error {
	if err := r.w.Write(row); err != nil {
		return err
	}
	r.w.Flush()
	return r.w.Error()
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

func known(n int) string {
	if n < 0 {
		return ""
	}
	return strconv.Itoa(n)
}

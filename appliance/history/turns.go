package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"viiwork/appliance/status"
)

const (
	// maxTurnLog is how long each of the two logs gets, maxTurn one line, and flushAt after how much is written before its time.
	maxTurnLog = 3 << 20
	maxTurn    = 2 << 10
	flushAt    = 32 << 10
	maxTurns   = 60_000 // in memory
	// maxFirsts bounds the kinds of turns that are told of. A larger mesh may have more: models by machines by how warm they began.
	maxFirsts = 1000
)

// turn is how one request began. Short names, as there are many.
type turn struct {
	At    int64   `json:"t"` // Unix seconds of its end
	Model string  `json:"m"`
	Host  string  `json:"h"`
	Class string  `json:"c"`
	First float64 `json:"f"` // milliseconds to its first token
}

// turns are the last day's, the oldest first.
type turns struct {
	dir     string
	all     []turn
	unsaved bytes.Buffer
	size    int64 // of the log that is written
}

func (t *turns) path(old bool) string {
	if old {
		return filepath.Join(t.dir, "turns.old")
	}
	return filepath.Join(t.dir, "turns.log")
}

// openTurns reads both logs.
func openTurns(dir string, now time.Time) (*turns, error) {
	t := &turns{dir: dir}
	for _, old := range []bool{true, false} {
		data, err := readSome(t.path(old), maxTurnLog+maxTurn+flushAt)
		if err != nil {
			data = nil // too long for one of ours, or none
			if !old && !os.IsNotExist(err) {
				_ = os.Remove(t.path(false))
			}
		}
		t.take(data, now)
		t.size = int64(len(data))
		if !old && len(data) > 0 && data[len(data)-1] != '\n' {
			t.unsaved.WriteByte('\n') // its last line is torn, and must not tear the next
		}
	}
	f, err := openOwn(t.path(false), os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return nil, fmt.Errorf("opening the history: %w", err)
	}
	return t, f.Close()
}

// take reads lines. One that is none of ours is left out.
func (t *turns) take(data []byte, now time.Time) {
	for line := range bytes.Lines(data) {
		var one turn
		if len(line) <= maxTurn && json.Unmarshal(line, &one) == nil && one.sane(now) {
			t.all = append(t.all, one)
		}
	}
	t.forget(now)
}

func (t turn) sane(now time.Time) bool {
	return t.At > now.Add(-keepFor).Unix() && t.At <= now.Unix() && isName(t.Model) && isName(t.Host) && t.First >= 0 && t.First < 1e9 &&
		(t.Class == "" || t.Class == "warm" || t.Class == "partly" || t.Class == "cold")
}

// add takes one request, and reports whether there is enough to write.
func (t *turns) add(now time.Time, r status.Request) (full bool) {
	if r.TTFTMS == nil || r.Node == "" || r.Status != 200 {
		return false
	}
	one := turn{At: now.Unix(), Model: r.Model, Host: r.Node, Class: Class(r), First: float64(int64(*r.TTFTMS*10)) / 10}
	if !one.sane(now) {
		return false
	}
	t.all = append(t.all, one)
	t.forget(now)
	line, err := json.Marshal(one)
	if err != nil || t.unsaved.Len() > 4*flushAt { // a disk that takes nothing must not fill the memory
		return true
	}
	t.unsaved.Write(append(line, '\n'))
	return t.unsaved.Len() >= flushAt
}

// forget drops what is older than a day, and the oldest of too many: an eighth at a time, since it copies the rest.
func (t *turns) forget(now time.Time) {
	from := max(0, len(t.all)-maxTurns)
	for from < len(t.all) && t.all[from].At <= now.Add(-keepFor).Unix() {
		from++
	}
	if from > len(t.all)/8 {
		t.all = append([]turn(nil), t.all[from:]...)
	}
}

// unwritten is what is not on disk yet.
func (t *turns) unwritten() []byte { return bytes.Clone(t.unsaved.Bytes()) }

// append writes lines, and tells how many bytes of them are on disk now.
func (t *turns) append(lines []byte) (n int, err error) {
	if len(lines) == 0 {
		return 0, nil
	}
	if t.size > maxTurnLog {
		if err := os.Rename(t.path(false), t.path(true)); err != nil {
			return 0, fmt.Errorf("turning the history over: %w", err)
		}
		t.size = 0
	}
	f, err := openOwn(t.path(false), os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return 0, fmt.Errorf("storing the history: %w", err)
	}
	n, err = f.Write(lines)
	t.size += int64(n)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return n, fmt.Errorf("storing the history: %w", err)
	}
	return n, nil
}

// firsts counts the turns of the last hour and day by what they have in common: of too many kinds those with the most turns.
func (t *turns) firsts(now time.Time) []status.First {
	type kind struct{ model, host, class, window string }
	counts := map[kind][]int{}
	for _, one := range t.all {
		age := now.Unix() - one.At
		if age > int64(keepFor/time.Second) {
			continue
		}
		day := kind{one.Model, one.Host, one.Class, "24h"}
		counts[day] = counted(counts[day], one.First)
		if age <= 3600 {
			hour := kind{one.Model, one.Host, one.Class, "1h"}
			counts[hour] = counted(counts[hour], one.First)
		}
	}
	all := []status.First{}
	for k, c := range counts {
		all = append(all, status.First{Model: k.model, Host: k.host, Class: k.class, Window: k.window, Counts: c})
	}
	slices.SortFunc(all, func(x, y status.First) int {
		return cmp.Or(cmp.Compare(Count(y.Counts), Count(x.Counts)), cmp.Compare(x.Model, y.Model), cmp.Compare(x.Host, y.Host),
			cmp.Compare(x.Class, y.Class), cmp.Compare(x.Window, y.Window))
	})
	return all[:min(len(all), maxFirsts)]
}

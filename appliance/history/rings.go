package history

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
	"unicode"

	"viiwork/appliance/status"
)

const (
	// maxSeries bounds a row: 1,024 figures of 4 bytes. Both rings of such rows take 7.2 MiB.
	maxSeries = 1024
	maxName   = 200
	rowHead   = 16 // time in Unix seconds, checksum, 4 bytes spare
	rowSize   = rowHead + 4*maxSeries
	ringFile  = "series.bin"
	nameFile  = "series.json"
)

// rings are the two rings of all series: one file of rows, the hour's first, and one of names. A row is the figures of one
// moment; where it stands follows from its time, so that no row says anything of another.
type rings struct {
	dir   string
	file  *os.File
	names []string // "" = free
	at    map[string]int
	dirty bool // the names are not on disk
	fine  []ringRow
	slow  []ringRow
	sums  []float64 // of the minute that is not over
	seen  []int
	since int64 // that minute
	full  int64 // the minute in which no place was found: it is not looked for again in that one
}

// ringRow is the figures of one moment; NaN = unknown. It is as long as there were series.
type ringRow struct {
	at int64
	of []float32
}

// openRings reads the rings, or begins new ones.
func openRings(dir string) (*rings, error) {
	file, err := openOwn(filepath.Join(dir, ringFile), os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("opening the history: %w", err)
	}
	const whole = int64(fineRows+coarseRows) * rowSize
	if info, err := file.Stat(); err == nil && info.Size() > whole {
		_ = file.Truncate(whole) // what lies behind the rows is none of ours
	}
	r := &rings{dir: dir, file: file, at: map[string]int{}, fine: make([]ringRow, fineRows), slow: make([]ringRow, coarseRows)}
	if !r.readNames() {
		_ = file.Truncate(0) // rows without names are of no use
		return r, nil
	}
	buf := make([]byte, rowSize)
	for i := range fineRows + coarseRows {
		if n, _ := file.ReadAt(buf, int64(i)*rowSize); n == rowSize {
			*r.row(i) = readRow(buf, len(r.names))
		}
	}
	return r, nil
}

// row is the i-th of the file.
func (r *rings) row(i int) *ringRow {
	if i < fineRows {
		return &r.fine[i]
	}
	return &r.slow[i-fineRows]
}

// readNames is false where there are none to be believed.
func (r *rings) readNames() bool {
	data, err := readSome(filepath.Join(r.dir, nameFile), maxSeries*(maxName*6+8))
	var names []string
	if err != nil || json.Unmarshal(data, &names) != nil || len(names) > maxSeries {
		return false
	}
	for i, name := range names {
		if _, twice := r.at[name]; twice || name != "" && !isName(name) {
			r.at = map[string]int{}
			return false
		}
		if name != "" {
			r.at[name] = i
		}
	}
	r.names = names
	return true
}

func isName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

// readRow checks one row. A torn one is none.
func readRow(buf []byte, series int) ringRow {
	at := int64(binary.LittleEndian.Uint64(buf))
	if at <= 0 || crc32.ChecksumIEEE(buf[rowHead:])^uint32(at) != binary.LittleEndian.Uint32(buf[8:]) {
		return ringRow{}
	}
	row := ringRow{at: at, of: make([]float32, series)}
	for i := range row.of {
		row.of[i] = math.Float32frombits(binary.LittleEndian.Uint32(buf[rowHead+4*i:]))
	}
	return row
}

func (r *rings) writeRow(i int, row ringRow) error {
	buf := make([]byte, rowSize)
	binary.LittleEndian.PutUint64(buf, uint64(row.at))
	for i := range maxSeries {
		v := float32(math.NaN())
		if i < len(row.of) {
			v = row.of[i]
		}
		binary.LittleEndian.PutUint32(buf[rowHead+4*i:], math.Float32bits(v))
	}
	binary.LittleEndian.PutUint32(buf[8:], crc32.ChecksumIEEE(buf[rowHead:])^uint32(row.at))
	_, err := r.file.WriteAt(buf, int64(i)*rowSize)
	return err
}

// placed is a row that is not on disk yet, and where it stands there.
type placed struct {
	i int
	ringRow
}

// add takes the figures of now, and gives what of them is to be written.
func (r *rings) add(now time.Time, figures map[string]float64) (unsaved []placed) {
	at := now.Unix() / int64(step/time.Second) * int64(step/time.Second)
	row := ringRow{at: at}
	minute := now.Unix() / 60 * 60
	if minute != r.since {
		unsaved = r.endMinute()
		r.since = minute
	}
	for name, v := range figures {
		i, ok := r.place(name)
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		for len(row.of) <= i {
			row.of = append(row.of, float32(math.NaN()))
		}
		row.of[i] = float32(v)
		for len(r.sums) <= i {
			r.sums, r.seen = append(r.sums, 0), append(r.seen, 0)
		}
		r.sums[i] += v
		r.seen[i]++
	}
	i := int(at/int64(step/time.Second)) % fineRows
	r.fine[i] = row
	return append(unsaved, placed{i, row})
}

// save writes rows, after the names without which they say nothing. It is for who adds: nobody else changes names.
func (r *rings) save(rows []placed) error {
	if r.dirty {
		if err := r.writeNames(); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if err := r.writeRow(row.i, row.ringRow); err != nil {
			return err
		}
	}
	return nil
}

// endMinute keeps the means of the minute that is over.
func (r *rings) endMinute() []placed {
	if len(r.sums) == 0 {
		return nil
	}
	row := ringRow{at: r.since, of: make([]float32, len(r.sums))}
	for i, n := range r.seen {
		row.of[i] = float32(math.NaN())
		if n > 0 {
			row.of[i] = float32(r.sums[i] / float64(n))
		}
	}
	r.sums, r.seen = nil, nil
	i := int(r.since/60) % coarseRows
	r.slow[i] = row
	return []placed{{fineRows + i, row}}
}

// place finds or makes the place of a series. Where all are taken, that of one that has had no figure for a day is.
func (r *rings) place(name string) (int, bool) {
	if i, known := r.at[name]; known {
		return i, true
	}
	if !isName(name) {
		return 0, false
	}
	i := len(r.names)
	if i < maxSeries {
		r.names = append(r.names, name)
	} else if r.full == r.since {
		return 0, false
	} else if i = r.unused(); i < 0 {
		r.full = r.since
		return 0, false
	} else {
		delete(r.at, r.names[i])
		r.names[i] = name
	}
	r.at[name], r.dirty = i, true
	return i, true
}

func (r *rings) unused() int {
	used := make([]bool, maxSeries)
	for _, ring := range [][]ringRow{r.fine, r.slow} {
		for _, row := range ring {
			for i, v := range row.of {
				used[i] = used[i] || !math.IsNaN(float64(v))
			}
		}
	}
	for i := range r.sums {
		used[i] = used[i] || r.seen[i] > 0
	}
	for i, u := range used {
		if !u {
			return i
		}
	}
	return -1
}

func (r *rings) writeNames() error {
	data, err := json.Marshal(r.names)
	if err == nil {
		err = replace(filepath.Join(r.dir, nameFile), data)
	}
	r.dirty = err != nil
	return err
}

// read gives all series that have a figure in the last hour, or day.
func (r *rings) read(now time.Time, day bool) status.Series {
	ring := r.fine
	if day {
		ring = r.slow
	}
	first, secs := window(now, day)
	out := status.Series{From: first, Step: int(secs), Lines: []status.Line{}}
	for i, name := range r.names {
		line := status.Line{Name: name, Values: make([]*float64, len(ring))}
		some := false
		for k := range ring {
			at := first + int64(k)*secs
			row := ring[int(at/secs)%len(ring)]
			if row.at != at || i >= len(row.of) || math.IsNaN(float64(row.of[i])) || math.IsInf(float64(row.of[i]), 0) {
				continue
			}
			v := math.Round(float64(row.of[i])*100) / 100
			line.Values[k], some = &v, true
		}
		if some && name != "" {
			out.Lines = append(out.Lines, line)
		}
	}
	return out
}

func (r *rings) close() { _ = r.file.Close() }

package enginetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// slotAction is POST /slots/N?action=save|restore|erase. It waits until the slot is idle.
func (s *Server) slotAction(w http.ResponseWriter, r *http.Request) {
	answer, err := s.actOnSlot(r)
	if err != nil {
		sendError(w, asAPIError(err))
		return
	}
	send(w, http.StatusOK, answer)
}

func (s *Server) actOnSlot(r *http.Request) (any, error) {
	if s.o.SaveDir == "" {
		return nil, notSupported("slots action", "--slot-save-path")
	}
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		return nil, badRequest("Invalid slot ID")
	}
	action := r.URL.Query().Get("action")
	var name string
	switch action {
	case "save", "restore":
		if name, err = slotFile(bodyOf(r)); err != nil {
			return nil, err
		}
	case "erase":
	default:
		return nil, badRequest("Invalid action")
	}
	s.needsLoop(r)
	sl := s.seize(id, r)
	defer s.slots.unseize(sl)
	defer s.result()
	began := time.Now()
	took := func() float64 { return float64(time.Since(began).Microseconds()) / 1000 }
	switch action {
	case "save":
		n, err := s.save(sl, name)
		if err != nil {
			return nil, badRequest("Unable to save slot")
		}
		return object{"id_slot": id, "filename": name, "n_saved": len(sl.tokens), "n_written": n, "timings": object{"save_ms": took()}}, nil
	case "restore":
		n, err := s.restore(sl, name)
		if err != nil {
			return nil, badRequest("Unable to restore slot: No available space in KV cache or invalid slot save file")
		}
		return object{"id_slot": id, "filename": name, "n_restored": len(sl.tokens), "n_read": n, "timings": object{"restore_ms": took()}}, nil
	}
	n := len(sl.tokens)
	s.slots.update(func() { sl.tokens = nil })
	return object{"id_slot": id, "n_erased": n}, nil
}

func slotFile(body []byte) (string, error) {
	f, err := decodeBody(body)
	if err != nil {
		return "", err
	}
	name, ok := f.m["filename"].(string)
	switch {
	case !ok:
		return "", badRequest("[json.exception.out_of_range.403] key 'filename' not found")
	case name == "" || strings.Contains(name, "..") || name != filepath.Base(name) || strings.ContainsAny(name, "\\\x00"):
		return "", badRequest("Invalid filename")
	}
	return name, nil
}

// seize waits for one slot, whoever else is idle.
func (s *Server) seize(id int, r *http.Request) *slot {
	n := s.o.Slots
	sl, w := s.slots.ask((id%n+n)%n, nil)
	if w == nil {
		return sl
	}
	select {
	case sl = <-w.granted:
		return sl
	case <-s.ctx.Done():
	case <-r.Context().Done():
	}
	s.slots.leave(w)
	panic(http.ErrAbortHandler)
}

// A slot file is laid out as the engine's own: magic and version, the tokens, a cell for each of them, then the K and
// the V rows of one layer.
const (
	stateMagic   = "qsgg"
	stateVersion = 4
)

func (s *Server) save(sl *slot, name string) (int, error) {
	var b bytes.Buffer
	b.WriteString(stateMagic)
	n := len(sl.tokens)
	words := make([]int32, 0, n+4)
	words = append(words, -1, 1, int32(n))
	for _, t := range sl.tokens {
		words = append(words, int32(tokenID(t)))
	}
	words = append(words, 0)
	put(&b, []uint32{stateVersion, uint32(len(words))})
	put(&b, words)
	put(&b, []uint32{1, uint32(n)})
	for pos := range n {
		put(&b, []int32{int32(pos), 1, 0})
	}
	put(&b, []uint32{0, 1, 0, 0})
	row := s.o.StateBytes / 2
	for part := range 2 {
		put(&b, uint32(ggmlF16))
		put(&b, uint64(row))
		// A row depends on all tokens up to its own, as KV does.
		sum := uint32(part)
		for i := range n {
			sum = crc32.Update(sum, crc32.IEEETable, sl.tokens[i:i+1])
			line := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, sum), row/4+1)
			b.Write(line[:row])
		}
	}
	return b.Len(), os.WriteFile(filepath.Join(s.o.SaveDir, name), b.Bytes(), 0o600)
}

var errBadState = errors.New("not a slot file of this engine")

// restore fills a slot from a file. When that fails the slot is empty, as it is with the engine.
func (s *Server) restore(sl *slot, name string) (int, error) {
	data, err := os.ReadFile(filepath.Join(s.o.SaveDir, name))
	var tokens []byte
	if err == nil {
		tokens, err = s.parseState(data)
	}
	s.slots.update(func() { sl.tokens = tokens })
	return len(data), err
}

func (s *Server) parseState(data []byte) ([]byte, error) {
	const head = 24 // magic, version, words, and the three words before the tokens
	if len(data) < head || string(data[:4]) != stateMagic || binary.LittleEndian.Uint32(data[4:]) != stateVersion {
		return nil, errBadState
	}
	n := int(binary.LittleEndian.Uint32(data[20:]))
	row := s.o.StateBytes / 2
	whole := head + 4*n + 4 + 8 + 12*n + 16 + 2*(12+n*row)
	if n > s.o.Context || len(data) != whole {
		return nil, errBadState
	}
	tokens := make([]byte, n)
	for i := range tokens {
		tokens[i] = holdID(int(int32(binary.LittleEndian.Uint32(data[head+4*i:]))))
	}
	return tokens, nil
}

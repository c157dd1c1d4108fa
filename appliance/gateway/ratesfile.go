package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Bounds of the file of rates, and of the tables in it.
const (
	maxRatesFile     = 4 << 20
	maxRatedModels   = 256
	maxRatedBackends = 64
	ratesVersion     = 1
)

// saveEvery is how often the measured rates are stored at most.
const saveEvery = 30 * time.Second

type ratesDoc struct {
	Version int                    `json:"version"`
	Models  map[string]*modelRates `json:"models"`
}

// load takes what an earlier run has measured, of models of which nothing is known yet. A missing file is no error; a broken one
// leaves nothing known.
func (r *rates) load(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for a writer that never comes
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the measured rates: %w", err)
	}
	defer f.Close()
	if stat, err := f.Stat(); err != nil || !stat.Mode().IsRegular() {
		return errRates
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRatesFile+1))
	if err != nil {
		return fmt.Errorf("reading the measured rates: %w", err)
	}
	models, err := readRates(data)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range models {
		if now := r.models[name]; now == nil || now.Output.Values == 0 {
			r.models[name] = m
		}
	}
	return nil
}

var errRates = errors.New("reading the measured rates: the file is none of this program's; they are measured anew")

func readRates(data []byte) (map[string]*modelRates, error) {
	var doc ratesDoc
	if len(data) > maxRatesFile || json.Unmarshal(data, &doc) != nil || doc.Version != ratesVersion || len(doc.Models) > maxRatedModels {
		return nil, errRates
	}
	for name, m := range doc.Models {
		if m == nil || len(name) > maxModelName || !m.possible() {
			return nil, errRates
		}
		if m.Backends == nil {
			m.Backends = map[string]*backendRates{}
		}
	}
	if doc.Models == nil {
		doc.Models = map[string]*modelRates{}
	}
	return doc.Models, nil
}

func (m *modelRates) possible() bool {
	if !m.Score.possible(leastScore, mostScore) || !m.Output.possible(1, mostTokens) || !m.Think.possible(0, mostThink.Seconds()) || len(m.Backends) > maxRatedBackends {
		return false
	}
	for _, b := range m.Backends {
		if b == nil {
			return false
		}
		for _, all := range [][]ewma{b.Prefill[:], b.Decode[:]} {
			for _, v := range all {
				if !v.possible(leastRate, mostRate) {
					return false
				}
			}
		}
	}
	return true
}

// keep saves what is new every while and at the end of ctx. A disk that is full or may not be written is named once, until it
// takes the file again.
func (r *rates) keep(ctx context.Context, path string, log *slog.Logger) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for over, said := false, false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-tick.C:
		}
		err := r.save(path)
		if err != nil && !said {
			log.Warn("the measured rates are not kept: after a restart they are measured anew", "error", err)
		}
		said = err != nil
	}
}

// save writes the file anew if there is anything new: a power cut leaves the old one or the new one.
func (r *rates) save(path string) error {
	r.mu.Lock()
	dirty := r.dirty
	r.dirty = false
	data, err := json.Marshal(ratesDoc{ratesVersion, r.models})
	r.mu.Unlock()
	if !dirty || err != nil {
		return err
	}
	if err := replaceRates(path, data); err != nil {
		r.mu.Lock()
		r.dirty = true
		r.mu.Unlock()
		return fmt.Errorf("storing the measured rates: %w", err)
	}
	return nil
}

func replaceRates(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".rates-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has its name
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

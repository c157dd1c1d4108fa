package main

import (
	"bufio"
	"fmt"
	"os"

	"viiwork/appliance/bench"
)

// benchFiles are those a bench writes. They are made before it begins: an hour's figures must not be lost to a slip in a
// path.
type benchFiles struct {
	csv, html *os.File
	rows      *bench.CSV
	fault     error // the first of writing rows
}

func (s swarm) open() (*benchFiles, error) {
	f := &benchFiles{}
	var err error
	if s.csv != "" {
		if f.csv, err = os.Create(s.csv); err == nil {
			f.rows, err = bench.NewCSV(f.csv)
		}
	}
	if err == nil && s.html != "" {
		f.html, err = os.Create(s.html)
	}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("making the report's files: %w", err)
	}
	return f, nil
}

// add writes a row; once that fails, none any more.
func (f *benchFiles) add(t bench.Turn) {
	if f.rows != nil && f.fault == nil {
		f.fault = f.rows.Add(t)
	}
}

// finish writes the page, and says what could not be written.
func (f *benchFiles) finish(r bench.Report) error {
	if f.fault != nil {
		return fmt.Errorf("writing the turns: %w", f.fault)
	}
	if f.html == nil {
		return nil
	}
	w := bufio.NewWriter(f.html)
	err := r.HTML(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.html.Sync()
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (f *benchFiles) close() {
	for _, file := range []*os.File{f.csv, f.html} {
		if file != nil {
			_ = file.Close()
		}
	}
}

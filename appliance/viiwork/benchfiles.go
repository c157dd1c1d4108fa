package main

import (
	"bufio"
	"fmt"
	"os"

	"viiwork/appliance/bench"
)

// benchFiles are those a bench writes. They are opened before it begins, since an hour's figures must not be lost to a slip
// in a path, and what was in them is kept until there is something to replace it.
type benchFiles struct {
	csv, html *os.File
	rows      *bench.CSV
	fault     error // the first of writing rows
}

func (s swarm) open() (*benchFiles, error) {
	f := &benchFiles{}
	var err error
	if s.csv != "" {
		f.csv, err = os.OpenFile(s.csv, os.O_CREATE|os.O_WRONLY, 0o644)
	}
	if err == nil && s.html != "" {
		f.html, err = os.OpenFile(s.html, os.O_CREATE|os.O_WRONLY, 0o644)
	}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("opening the report's files: %w", err)
	}
	return f, nil
}

// begin empties the file of rows and writes its head.
func (f *benchFiles) begin() {
	if f.csv == nil {
		return
	}
	if f.fault = emptyFile(f.csv); f.fault == nil {
		f.rows, f.fault = bench.NewCSV(f.csv)
	}
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
	err := emptyFile(f.html)
	if err == nil {
		err = r.HTML(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// kvRows is the file of rows that measuring moves writes, as careful as benchFiles.
type kvRows struct {
	file  *os.File // nil = none is wanted
	rows  *bench.KVCSV
	fault error // the first of writing rows
}

func (k *kvRows) open(path string) (err error) {
	if path == "" {
		return nil
	}
	if k.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return fmt.Errorf("opening the report's file: %w", err)
	}
	return nil
}

func (k *kvRows) begin() {
	if k.file == nil {
		return
	}
	if k.fault = emptyFile(k.file); k.fault == nil {
		k.rows, k.fault = bench.NewKVCSV(k.file)
	}
}

func (k *kvRows) add(p bench.KVPair, s bench.KVSize) {
	if k.rows != nil && k.fault == nil {
		k.fault = k.rows.Add(p, s)
	}
}

func (k *kvRows) finish() error {
	if k.fault != nil {
		return fmt.Errorf("writing the moves: %w", k.fault)
	}
	return nil
}

func (k *kvRows) close() {
	if k.file != nil {
		_ = k.file.Close()
	}
}

// emptyFile does so with a file on a disk; a pipe or a terminal has nothing in it.
func emptyFile(f *os.File) error {
	if stat, err := f.Stat(); err != nil || !stat.Mode().IsRegular() {
		return err
	}
	return f.Truncate(0)
}

func (f *benchFiles) close() {
	for _, file := range []*os.File{f.csv, f.html} {
		if file != nil {
			_ = file.Close()
		}
	}
}

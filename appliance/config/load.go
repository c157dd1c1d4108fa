package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Load reads and checks the file at path under environ (NAME=value each). What is wrong inside the file or the
// environment is a [Faults]. When only the mesh secret is missing or unusable the Config is returned beside the error:
// a command that just asks the running node needs no secret.
func Load(path string, environ []string) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(path, data, environ)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: write it, or name another with --config", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, fmt.Errorf("%s is a directory: name the file in it with --config", path)
	}
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// Parse is Load with the file's bytes in hand. Relative paths start at the folder of name.
func Parse(name string, data []byte, environ []string) (*Config, error) {
	c := Default()
	c.src = source{file: name, positions: map[string]Position{}}
	list := &faultList{}
	root, fault := document(name, data)
	if fault != nil {
		list.add(*fault)
		return nil, list.err()
	}
	if old := versionOne(name, root); old != nil {
		list.add(*old)
		return nil, list.err()
	}
	if root != nil {
		d := &decoder{src: &c.src, list: list, keys: Keys()}
		d.value(root, reflect.ValueOf(&c).Elem(), place{})
	}
	env := newEnviron(environ)
	c.overlay(env, list)
	folder, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, fmt.Errorf("finding the folder of %s: %w", name, err)
	}
	c.derive(folder)
	c.check(list)
	c.readSecrets(env, list)
	if err := list.err(); err != nil {
		if list.faults.all(func(k faultKind) bool { return k != faultFile }) {
			return &c, err
		}
		return nil, err
	}
	return &c, nil
}

// document reads the one YAML document of the file; nil when the file is empty.
func document(name string, data []byte) (*yaml.Node, *Fault) {
	if len(data) > maxFile {
		return nil, &Fault{File: name, Line: 1, Column: 1, Message: "the file is over 1 MiB: is it a configuration at all?"}
	}
	if line, column, bad := badByte(data); bad {
		return nil, &Fault{File: name, Line: line, Column: column, Message: "this byte is not readable text: save the file as UTF-8 without control characters"}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, syntaxFault(name, data, err)
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxFault(name, data, err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, &Fault{File: name, Line: second.Line, Column: second.Column,
			Message: "a second document starts here: one file describes one machine, remove the line ---"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxFault(name, data, err)
	}
	if len(first.Content) == 0 {
		return nil, nil
	}
	return first.Content[0], nil
}

// badByte finds the first byte no YAML file may hold, as line and column.
func badByte(data []byte) (line, column int, bad bool) {
	line, column = 1, 1
	for rest := data; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1, r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return line, column, true
		case r == '\n':
			line, column = line+1, 0
		}
		rest, column = rest[n:], column+1
	}
	return 0, 0, false
}

// syntaxFault turns the parser's error into a fault, adding what usually causes it.
func syntaxFault(name string, data []byte, err error) *Fault {
	f := &Fault{File: name, Line: 1, Column: 1, Message: "this is not YAML: " + err.Error()}
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return f
	}
	f.Line, f.Column = max(le.Mark.Line, 1), max(le.Mark.Column, 1)
	f.Message = le.Message
	switch {
	case byteAt(data, f.Line, f.Column) == '\t':
		f.Message = "a tab: YAML is indented with spaces"
	case strings.Contains(le.Message, "mapping values are not allowed"):
		f.Message = "a second ':' or a wrong indentation: line the key up with its neighbours, or quote the value"
	case strings.Contains(le.Message, "cannot start any token"):
		f.Message = "a value cannot start with this character: put it in quotes"
	case strings.Contains(le.Message, "did not find expected"), strings.Contains(le.Message, "could not find expected"):
		f.Message = "the block before this line is not closed or not lined up (" + le.Message + "): check brackets and indentation"
	case strings.Contains(le.Message, "exceeded max depth"):
		f.Message = "nested deeper than any key of viiwork: close what was opened"
	case strings.Contains(le.Message, "unexpected end of stream"):
		f.Message = "a quote or bracket opened before is never closed: close it"
	}
	return f
}

// byteAt is the byte at a position, 0 outside the text.
func byteAt(data []byte, line, column int) byte {
	lines := bytes.SplitN(data, []byte("\n"), line+1)
	if line > len(lines) || column > len(lines[line-1]) {
		return 0
	}
	return lines[line-1][column-1]
}

package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

// LockSays brings messages to a new lock, the second one from another member, and names what is wrong with what comes of them.
func LockSays(dir, from string, messages ...[]byte) error {
	l := NewLock(LockConfig{ID: "n01", Name: "node1", Dir: dir, Members: func() (a, f, left []Member) { return []Member{{ID: "n02"}, {ID: "n03"}}, nil, nil }})
	l.quiet = l.heard
	for i, text := range messages {
		var m lockMessage
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		if i > 0 {
			from = "n04"
		}
		before := l.state
		a := l.take(from, m)
		switch {
		case !a.sound():
			return fmt.Errorf("nobody takes the answer %+v", a)
		case before.Owner != "" && before.Owner != from && l.state.Owner == from:
			return errors.New("a voice is given twice")
		case l.state.Term < before.Term || before.Note.newer(l.state.Note):
			return errors.New("it went back")
		}
		kept, err := readLock(filepath.Join(dir, "meshlock.json"))
		if a.OK && m.Step != lockAsk && (err != nil || kept.Token != l.state.Token || kept.Term != l.state.Term) {
			return fmt.Errorf("kept is %+v, %w", kept, err)
		}
	}
	return nil
}

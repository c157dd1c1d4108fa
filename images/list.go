package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// State is what is known of an image on this machine.
type State string

// States.
const (
	Checked   State = "checked"   // fetched by digest, and Docker has it
	Made      State = "made"      // made here by its recipe, and Docker has it
	Unchecked State = "unchecked" // Docker has something of that name, which nobody looked at
	Gone      State = "gone"      // it was checked or made, and Docker has it no more
	Absent    State = "absent"
	Unknown   State = "unknown" // Docker does not answer
)

// Listed is one image that has a short name or a place in the book.
type Listed struct {
	Entry           // of the catalogue; of others the Reference alone is known
	ID    string    // Docker's; "" = none that was checked or made
	At    time.Time // when that was
	State State
}

// List tells of the catalogue's images in its order, then of the others in the book. Where Docker does not answer, the list
// is there beside the error.
func (s *Stock) List(ctx context.Context) (list []Listed, err error) {
	seen := map[string]bool{}
	add := func(e Entry) error {
		l, err := s.look(ctx, e)
		list = append(list, l)
		return err
	}
	var faults []error
	for _, e := range known() {
		if ref, err := canonical(e.Ref()); err == nil {
			seen[ref.Name()] = true
		}
		faults = append(faults, add(e))
	}
	for _, h := range s.cfg.Book.All() {
		if !seen[h.Reference] {
			faults = append(faults, add(Entry{Reference: h.Reference}))
		}
	}
	for _, fault := range faults {
		if fault != nil {
			return list, fault // the others say the same
		}
	}
	return list, nil
}

func (s *Stock) look(ctx context.Context, e Entry) (Listed, error) {
	l := Listed{Entry: e, State: Unknown}
	held, ok := s.cfg.Book.Find(e.Ref())
	which := e.Ref()
	if ok {
		l.ID, l.At, which = held.ID, held.At, held.ID
		if held.Digest != "" {
			l.Digest = held.Digest
		}
	}
	_, err := s.cfg.Docker.ImageID(ctx, which)
	there := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return l, fmt.Errorf("asking which images are here: %w", err)
	case ok && !there:
		l.State = Gone
	case ok && held.Digest == "":
		l.State = Made
	case ok:
		l.State = Checked
	case there:
		l.State = Unchecked
	default:
		l.State = Absent
	}
	return l, nil
}

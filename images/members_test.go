package images_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"viiwork/images"
	"viiwork/images/imagestest"
	"viiwork/images/papers"
)

// member is one that has an image, or something else.
type member struct {
	name    string
	papers  papers.Papers
	content map[string][]byte // by digest
	parts   []papers.Part
	spoil   func(p images.Piece, b []byte) ([]byte, error) // nil = it is honest
	dies    func()                                         // called before its second piece
	asked   int
}

// newMember has what the registry has now, from a machine that has fetched it.
func newMember(t *testing.T, r *imagestest.Registry, name, image string, packed bool) *member {
	t.Helper()
	m := &member{name: name}
	state := t.TempDir()
	stock := images.New(images.Config{Docker: &daemon{}, Book: openBook(t, filepath.Join(state, "images.json")), Papers: papers.FolderIn(state)})
	held, err := stock.Pull(t.Context(), images.Order{Image: r.Ref(image)})
	if err != nil {
		t.Fatal(err)
	}
	proved := (*papers.Image)(nil)
	if m.papers, proved, err = papers.FolderIn(state).Find(held.Digest); err != nil {
		t.Fatal(err)
	}
	content := r.Content(image)
	if m.content = content.Archives; packed {
		m.content = content.Packed
	}
	m.parts, err = proved.Parts(func(digest string) (int64, bool) { b, ok := m.content[digest]; return int64(len(b)), ok })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mesh asks its members in their order.
type mesh struct {
	members []*member
	down    error

	mu sync.Mutex
}

func (m *mesh) Offers(context.Context, string) (all []images.Offer, err error) {
	for _, one := range m.members {
		all = append(all, images.Offer{Member: one.name, Papers: one.papers})
	}
	return all, m.down
}

func (m *mesh) find(name string) *member {
	return m.members[slices.IndexFunc(m.members, func(one *member) bool { return one.name == name })]
}

func (m *mesh) Parts(_ context.Context, member, _ string) ([]papers.Part, error) {
	return m.find(member).parts, nil
}

func (m *mesh) Piece(ctx context.Context, p images.Piece) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.find(p.Member)
	if one.asked++; one.asked == 2 && one.dies != nil {
		one.dies()
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b := one.content[p.Layer]
	b = bytes.Clone(b[min(p.From, int64(len(b))):min(p.From+p.Size, int64(len(b)))])
	if one.spoil != nil {
		return one.spoil(p, b)
	}
	return b, nil
}

// asker is a machine whose mesh has these members, and what its owner was told.
type asker struct {
	t     *testing.T
	d     *daemon
	cfg   images.Config
	state string
	notes []string
	last  int64
	total int64
}

func newAsker(t *testing.T, d *daemon, members ...*member) *asker {
	state := t.TempDir()
	return &asker{t: t, d: d, state: state, cfg: images.Config{
		Docker: d, Loader: d, Book: openBook(t, filepath.Join(state, "images.json")), Papers: papers.FolderIn(state), Members: &mesh{members: members},
	}}
}

func (a *asker) pull(image, digest string) (images.Held, error) {
	return a.pullIn(a.t.Context(), image, digest)
}

func (a *asker) pullIn(ctx context.Context, image, digest string) (images.Held, error) {
	a.notes = nil
	return images.New(a.cfg).Pull(ctx, images.Order{
		Image: image, Digest: digest, Note: func(text string) { a.notes = append(a.notes, text) },
		Tell: func(done, total int64) { a.last, a.total = done, total },
	})
}

// cut is the way to a registry that is gone.
type cut struct{}

func (cut) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the cable is cut")
}

func (a *asker) told(text string) bool {
	return slices.ContainsFunc(a.notes, func(note string) bool { return strings.Contains(note, text) })
}

// TestImageComesFromAMemberWhenTheRegistryIsGone, as archives or as the registry packed them, into either of Docker's stores.
func TestImageComesFromAMemberWhenTheRegistryIsGone(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, stored := range []bool{false, true} {
			for _, indexed := range []bool{false, true} {
				t.Run(fmt.Sprintf("packed %t containerd %t index %t", packed, stored, indexed), func(t *testing.T) {
					r, d := imagestest.New(t), &daemon{stored: stored}
					digest := ""
					if indexed {
						digest = r.Index("engine:v1")
					} else {
						digest = r.Random("engine:v1")
					}
					has := newMember(t, r, "attic", "engine:v1", packed)
					a := newAsker(t, d, has)
					a.cfg.Transport = cut{}
					held, err := a.pull(r.Ref("engine:v1"), digest)
					if err != nil {
						t.Fatal(err)
					}
					if held.Digest != digest || !d.has(held.ID) || !d.has(r.Ref("engine:v1")) || d.pulls > 0 {
						t.Errorf("held %+v after %d pulls", held, d.pulls)
					}
					if !a.told("from attic") || a.last != a.total || a.total < 1<<10 {
						t.Errorf("told %q, %d of %d bytes", a.notes, a.last, a.total)
					}
					if left := d.arrivals(); len(left) > 0 {
						t.Errorf("left %v", left)
					}
					if _, _, err := a.cfg.Papers.Find(digest); err != nil {
						t.Errorf("it cannot be given on: %v", err)
					}
					asked := has.asked
					if again, err := a.pull(r.Ref("engine:v1"), digest); err != nil || again.ID != held.ID || has.asked != asked {
						t.Errorf("once more: %+v, %v, %d pieces", again, err, has.asked-asked)
					}
				})
			}
		}
	}
}

// TestWhatIsNotTheImageLeavesNothing, and the next member is asked; where there is none, the registry.
func TestWhatIsNotTheImageLeavesNothing(t *testing.T) {
	r := imagestest.New(t)
	r.Random("other:v1")
	digest := r.Random("engine:v1")
	other := newMember(t, r, "other", "other:v1", false)
	for name, spoil := range map[string]func(*member){
		"a wrong byte": func(m *member) {
			m.spoil = func(p images.Piece, b []byte) ([]byte, error) {
				if p.Layer == m.parts[2].Digest {
					b[len(b)/2] ^= 1
				}
				return b, nil
			}
		},
		"another layer": func(m *member) { m.content[m.parts[1].Digest] = m.content[m.parts[0].Digest] },
		"short":         func(m *member) { m.spoil = func(_ images.Piece, b []byte) ([]byte, error) { return b[:len(b)/2], nil } },
		"empty":         func(m *member) { m.spoil = func(images.Piece, []byte) ([]byte, error) { return nil, nil } },
		"endless": func(m *member) {
			m.spoil = func(_ images.Piece, b []byte) ([]byte, error) { return append(b, b...), nil }
		},
		"of any size": func(m *member) { m.parts[0].Size = 1 << 50 },
		"gone half-way": func(m *member) {
			m.spoil = func(p images.Piece, b []byte) ([]byte, error) {
				if m.asked > 1 {
					return nil, errors.New("the member cannot be reached")
				}
				return b, nil
			}
		},
		"another image":         func(m *member) { *m = *other; m.name = "liar" },
		"another configuration": func(m *member) { m.papers.Config = other.papers.Config },
		"no papers":             func(m *member) { m.papers = papers.Papers{} },
		"no layers":             func(m *member) { m.parts = nil },
	} {
		t.Run(name, func(t *testing.T) {
			liar, honest := newMember(t, r, "liar", "engine:v1", false), newMember(t, r, "attic", "engine:v1", false)
			spoil(liar)
			d := &daemon{}
			a := newAsker(t, d, liar, honest)
			held, err := a.pull(r.Ref("engine:v1"), digest)
			if err != nil || held.Digest != digest || d.pulls > 0 || !a.told("liar does not give it") || !a.told("from attic") {
				t.Errorf("held %+v, %v after %d pulls; told %q", held, err, d.pulls, a.notes)
			}
			d = &daemon{}
			a = newAsker(t, d, liar)
			if held, err = a.pull(r.Ref("engine:v1"), digest); err != nil || held.Digest != digest || d.pulls != 1 {
				t.Errorf("from the registry: %+v, %v after %d pulls", held, err, d.pulls)
			}
			if len(d.loads) > 0 || len(d.arrivals()) > 0 {
				t.Errorf("left of it: %v", d.loads)
			}
		})
	}
}

// TestDockerThatHoldsSomethingElseIsNotBelieved where its ids are not those of configurations.
func TestDockerThatHoldsSomethingElseIsNotBelieved(t *testing.T) {
	r := imagestest.New(t)
	digest := r.Random("engine:v1")
	has := newMember(t, r, "attic", "engine:v1", false)
	for name, spoil := range map[string]func(*loaded){
		"other layers":    func(l *loaded) { l.content = l.content[1:] },
		"another program": func(l *loaded) { l.config = []byte(`{"Entrypoint":["/bin/evil"]}`) },
	} {
		d := &daemon{stored: true, spoil: spoil}
		a := newAsker(t, d, has)
		a.cfg.Transport = cut{}
		if held, err := a.pull(r.Ref("engine:v1"), digest); err == nil || !a.told("which is not what was loaded") {
			t.Errorf("%s: held %+v, told %q", name, held, a.notes)
		}
		if len(d.ids) > 0 || len(a.cfg.Book.All()) > 0 {
			t.Errorf("%s: left %v", name, d.ids)
		}
	}
}

func TestMovedTagIsNotAMembersToTell(t *testing.T) {
	r, d := imagestest.New(t), &daemon{}
	old := r.Random("engine:v1")
	has := newMember(t, r, "attic", "engine:v1", false)
	moved := r.Random("engine:v1")
	a := newAsker(t, d, has)
	if held, err := a.pull(r.Ref("engine:v1"), ""); err != nil || held.Digest != moved || d.pulls != 1 {
		t.Errorf("held %+v, %v after %d pulls; the tag is %s, was %s", held, err, d.pulls, moved, old)
	}
	a = newAsker(t, &daemon{}, has)
	if _, err := a.pull(r.Ref("engine:v1"), old); err != nil {
		t.Fatal(err)
	}
	if _, err := a.pull(r.Ref("engine:v1"), ""); !errors.Is(err, images.ErrMoved) {
		t.Errorf("a tag that has moved since: %v", err)
	}
	a.cfg.Transport = cut{}
	if held, err := a.pull(r.Ref("engine:v1"), ""); err != nil || held.Digest != old {
		t.Errorf("without a registry: %+v, %v", held, err)
	}
	a = newAsker(t, &daemon{}, has)
	a.cfg.Transport = cut{}
	if _, err := a.pull(r.Ref("engine:v1"), ""); err == nil || !strings.Contains(err.Error(), "--digest") {
		t.Errorf("a tag that nobody knows: %v", err)
	}
}

func TestFullDiskIsNotAMembersFault(t *testing.T) {
	r := imagestest.New(t)
	digest := r.Random("engine:v1")
	has := newMember(t, r, "attic", "engine:v1", false)
	d := &daemon{}
	a := newAsker(t, d, has)
	a.cfg.Room = func(context.Context) (int64, error) { return 1 << 20, nil }
	if held, err := a.pull(r.Ref("engine:v1"), digest); err != nil || held.Digest != digest || has.asked > 0 || !a.told("disk is too full") {
		t.Errorf("held %+v, %v, %d pieces; told %q", held, err, has.asked, a.notes)
	}
	d = &daemon{full: true}
	a = newAsker(t, d, has)
	if _, err := a.pull(r.Ref("engine:v1"), digest); err != nil || d.pulls != 1 || !a.told("no space left") || len(d.arrivals()) > 0 {
		t.Errorf("%v after %d pulls; told %q", err, d.pulls, a.notes)
	}
}

func TestOwnerWhoGivesUpIsNotPassedBy(t *testing.T) {
	r := imagestest.New(t)
	digest := r.Random("engine:v1")
	has, d := newMember(t, r, "attic", "engine:v1", false), &daemon{}
	ctx, cancel := context.WithCancel(t.Context())
	has.dies = cancel
	a := newAsker(t, d, has)
	if _, err := a.pullIn(ctx, r.Ref("engine:v1"), digest); !errors.Is(err, context.Canceled) || d.pulls > 0 || len(d.ids) > 0 || len(a.cfg.Book.All()) > 0 {
		t.Errorf("%v after %d pulls, left %v", err, d.pulls, d.ids)
	}
}

// TestRegistryIsAskedWhereMembersCannotBe, or have nothing.
func TestRegistryIsAskedWhereMembersCannotBe(t *testing.T) {
	r := imagestest.New(t)
	digest := r.Random("engine:v1")
	for _, down := range []error{nil, errors.New("this node has no place in the mesh yet")} {
		d := &daemon{}
		a := newAsker(t, d)
		a.cfg.Members = &mesh{down: down}
		if held, err := a.pull(r.Ref("engine:v1"), ""); err != nil || held.Digest != digest || d.pulls != 1 {
			t.Errorf("%v: held %+v, %v", down, held, err)
		}
	}
}

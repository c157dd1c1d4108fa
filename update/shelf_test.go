package update_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"viiwork/update"
	"viiwork/update/updatetest"
)

// fellows are members whose shelves lie in folders of this machine.
type fellows struct {
	own     *update.Shelf
	shelves []*update.Shelf
	spoil   func([]byte) []byte // what becomes of a part on its way; nil = nothing

	mu      sync.Mutex
	fetched int
}

func (f *fellows) Offers(context.Context) (all []update.Offered, err error) {
	for _, s := range f.shelves {
		list, err := s.Offers()
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func (f *fellows) Fetch(_ context.Context, digest string, size int64) error {
	for _, s := range f.shelves {
		part, err := s.Open(digest)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(part)
		part.Close()
		if err != nil {
			return err
		}
		if f.spoil != nil {
			text = f.spoil(text)
		}
		if err := f.own.Put(digest, size, bytes.NewReader(text)); err != nil {
			return err
		}
		f.mu.Lock()
		f.fetched++
		f.mu.Unlock()
		return nil
	}
	return fs.ErrNotExist
}

// node is an updater with a state directory of its own, and the others as members.
func (w *world) node(state string, others ...string) (*update.Updater, *fellows) {
	f := &fellows{own: update.OpenShelf(state)}
	for _, o := range others {
		f.shelves = append(f.shelves, update.OpenShelf(o))
	}
	return w.updater("v1.0.0", func(c *update.Config) {
		if c.StateDir, c.Members = state, f; w.gone {
			c.Transport = nobody{}
		}
	}), f
}

func takeProgram(t *testing.T, u *update.Updater, version string) error {
	t.Helper()
	found, _, err := u.Find(t.Context(), version, false)
	if err != nil {
		return err
	}
	var program bytes.Buffer
	if _, err := found.Program(t.Context(), "linux/amd64", &program); err != nil {
		return err
	}
	if want := string(programs(version)["linux/amd64"]); program.String() != want {
		t.Errorf("the program is %q, want %q", program.String(), want)
	}
	return nil
}

// TestOneDownloadIsEnoughForTwo: the second node has the parts from the first, and the registry is asked for none.
func TestOneDownloadIsEnoughForTwo(t *testing.T) {
	w := newWorld(t)
	w.publish("v1.1.0")
	first, second := t.TempDir(), t.TempDir()
	u, _ := w.node(first)
	if err := takeProgram(t, u, "v1.1.0"); err != nil {
		t.Fatal(err)
	}
	w.swapLayers("none is given any more")
	u, f := w.node(second, first)
	if err := takeProgram(t, u, "v1.1.0"); err != nil {
		t.Fatal(err)
	}
	if f.fetched == 0 {
		t.Error("nothing came from the member")
	}
}

// swapLayers has the registry give something else in place of every layer.
func (w *world) swapLayers(text string) {
	other := func() []byte { return []byte(text) }
	w.reg.Swap.Store(&other)
}

// TestRegistryThatIsGoneHalfWay: index, proof and parts come from the member, and are verified as the registry's are.
func TestRegistryThatIsGoneHalfWay(t *testing.T) {
	w := newWorld(t)
	w.publish("v1.1.0")
	first, second := t.TempDir(), t.TempDir()
	u, _ := w.node(first)
	if err := takeProgram(t, u, "v1.1.0"); err != nil {
		t.Fatal(err)
	}
	w.gone = true
	u, _ = w.node(second, first)
	offer, err := u.Check(t.Context())
	if err != nil || offer.Version != "v1.1.0" || !offer.New {
		t.Fatalf("offer %+v, %v", offer, err)
	}
	if err := takeProgram(t, u, "v1.1.0"); err != nil {
		t.Fatal(err)
	}
	// Another publisher's release is not believed for coming from a member.
	w.sig = updatetest.New(t)
	u, _ = w.node(t.TempDir(), first)
	if err := takeProgram(t, u, "v1.1.0"); err == nil {
		t.Error("a proof of another root was taken")
	}
}

// TestMemberThatLiesIsPassedBy: a wrong part is refused by its digest, and comes from the registry.
func TestMemberThatLiesIsPassedBy(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"a bit turned": func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
		"cut":          func(b []byte) []byte { return b[:len(b)/2] },
		"longer":       func(b []byte) []byte { return append(bytes.Clone(b), 0) },
		"nothing":      func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.publish("v1.1.0")
			first, second := t.TempDir(), t.TempDir()
			u, _ := w.node(first)
			if err := takeProgram(t, u, "v1.1.0"); err != nil {
				t.Fatal(err)
			}
			u, f := w.node(second, first)
			f.spoil = spoil
			if err := takeProgram(t, u, "v1.1.0"); err != nil {
				t.Fatal(err)
			}
			if f.fetched != 0 {
				t.Error("a wrong part was taken")
			}
		})
	}
}

// TestShelfThatIsWrongItself, by a disk's fault or somebody's hand, gives nothing that is used.
func TestShelfThatIsWrongItself(t *testing.T) {
	w := newWorld(t)
	w.publish("v1.1.0")
	state := t.TempDir()
	u, _ := w.node(state)
	if err := takeProgram(t, u, "v1.1.0"); err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(state, "releases", strings.Repeat("[0-9a-f]", 64)))
	if err != nil || len(entries) < 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if err := os.WriteFile(e, []byte("else"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := takeProgram(t, u, "v1.1.0"); err != nil {
		t.Fatalf("a shelf that is wrong keeps the node from updating: %v", err)
	}
}

// TestShelfKeepsTheLastTwo releases, and nothing of the others.
func TestShelfKeepsTheLastTwo(t *testing.T) {
	w := newWorld(t)
	state := t.TempDir()
	u, _ := w.node(state)
	var parts []int
	for i := 1; i <= 4; i++ {
		version := fmt.Sprintf("v1.%d.0", i)
		w.publish(version)
		if err := takeProgram(t, u, version); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(state, "releases"))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, len(entries))
	}
	offers, err := update.OpenShelf(state).Offers()
	if err != nil || len(offers) != 2 || offers[0].Version != "v1.3.0" || offers[1].Version != "v1.4.0" {
		t.Errorf("offers %+v, %v", offers, err)
	}
	if parts[3] != parts[1] {
		t.Errorf("files after each release: %v", parts)
	}
}

// TestAPipeOnTheShelfHoldsNobodyUp: to open it would wait for its other end.
func TestAPipeOnTheShelfHoldsNobodyUp(t *testing.T) {
	state := t.TempDir()
	hex := strings.Repeat("a", 64)
	if err := os.MkdirAll(filepath.Join(state, "releases"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(state, "releases", hex), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := update.OpenShelf(state).Open("sha256:" + hex); err == nil || !strings.Contains(err.Error(), "no plain file") {
		t.Error(err)
	}
}

func TestShelfRefusesOtherNames(t *testing.T) {
	s := update.OpenShelf(t.TempDir())
	for _, name := range []string{"", "list.json", "sha256:../../etc/passwd", "sha256:" + strings.Repeat("A", 64), "sha512:" + strings.Repeat("a", 64)} {
		if _, err := s.Open(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opening %q: %v", name, err)
		}
		if err := s.Put(name, 1, strings.NewReader("x")); err == nil {
			t.Errorf("put %q", name)
		}
	}
}

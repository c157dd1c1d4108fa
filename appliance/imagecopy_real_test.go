package appliance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"viiwork/engine/docker"
	"viiwork/images"
	"viiwork/images/imagestest"
	"viiwork/images/papers"
)

// copies are what the node's members have, asked by way of the node's socket as 'viiwork images pull' does.
type copies struct {
	t     testing.TB
	f     *fellow
	spoil func(b []byte) ([]byte, error) // what comes; nil = nobody does
}

func (c copies) ask(path string, q url.Values) (string, error) {
	got := c.f.owner(c.t, http.MethodGet, path+"?"+q.Encode(), "")
	if got.err == nil && got.status != http.StatusOK {
		got.err = fmt.Errorf("%d %s", got.status, got.body)
	}
	return got.body, got.err
}

func (c copies) Offers(_ context.Context, digest string) (all []images.Offer, err error) {
	text, err := c.ask("/api/engineimages", url.Values{"digest": {digest}})
	err = errors.Join(err, json.Unmarshal([]byte(text), &all))
	return all, err
}

func (c copies) Parts(_ context.Context, member, digest string) ([]papers.Part, error) {
	text, err := c.ask("/api/engineimages/parts", url.Values{"node": {member}, "digest": {digest}})
	if err != nil {
		return nil, err
	}
	var parts []papers.Part
	err = json.Unmarshal([]byte(text), &parts)
	return parts, err
}

func (c copies) Piece(_ context.Context, p images.Piece) ([]byte, error) {
	text, err := c.ask("/api/engineimages/piece", url.Values{"node": {p.Member}, "digest": {p.Image}, "layer": {p.Layer},
		"from": {strconv.FormatInt(p.From, 10)}, "size": {strconv.FormatInt(p.Size, 10)}})
	if err != nil || c.spoil == nil {
		return []byte(text), err
	}
	return c.spoil([]byte(text))
}

// cut is the way to a registry that is gone.
type cut struct{}

func (cut) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the cable is cut")
}

// stockOf is a node's stock of images over the Docker at host, "" = the machine's. With members there is no registry.
func stockOf(t *testing.T, f *fellow, host string, members images.Members) *images.Stock {
	t.Helper()
	state := filepath.Join(f.dir, "state")
	book, err := images.OpenBook(images.BookFile(state))
	if err != nil {
		t.Fatal(err)
	}
	runner := docker.New(docker.Config{Host: host, Node: f.name, StateDir: state, UID: os.Getuid(), GID: os.Getgid()})
	t.Cleanup(func() { runner.Close() })
	with := images.Config{Docker: runner, Book: book, Papers: papers.FolderIn(state), Members: members, Loader: runner, Room: runner.Free}
	if members != nil {
		with.Transport = cut{}
	}
	return images.New(with)
}

// newOtherDocker is one of the test's own, which ends with it.
func newOtherDocker(t *testing.T) *otherDocker {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to run a Docker of its own")
	}
	dir, err := os.MkdirTemp("", "vwd") // its sockets need a short path
	if err != nil {
		t.Fatal(err)
	}
	other := &otherDocker{t: t, dir: dir}
	t.Cleanup(func() {
		other.end(syscall.SIGTERM)
		_ = exec.Command("umount", "-l", filepath.Join(dir, "data")).Run() // where it was killed
		_ = os.RemoveAll(dir)
	})
	other.start()
	return other
}

// TestAnEnginesImageComesFromAnotherNode of a secured mesh when the registry is gone, into another Docker, and runs there
// by the id that was checked. What comes with one byte turned, or not to its end, leaves nothing there.
func TestAnEnginesImageComesFromAnotherNode(t *testing.T) {
	t.Parallel()
	needEngineImage(t)
	other := newOtherDocker(t)
	has, asks := lanFellow(t, 60), lanFellow(t, 61)
	asks.seeds = []string{has.seed()}
	has.secret, asks.secret = rightSecret, rightSecret
	ends := has.here(t)
	asks.here(t)
	r := imagestest.New(t)
	forgetImages(t, r)
	saved := filepath.Join(t.TempDir(), "engine.tar")
	dockerSays(t, "save", "-o", saved, engineImage)
	r.Saved("engine:v1", saved)
	r.Random("small:v1")
	pulled := map[string]images.Held{}
	for _, image := range []string{"engine:v1", "small:v1"} {
		held, err := stockOf(t, has, "", nil).Pull(t.Context(), images.Order{Image: r.Ref(image)})
		if err != nil {
			t.Fatal(err)
		}
		pulled[image] = held
	}
	holds(t, "they know each other", func() bool { return asks.member(has.name) == "alive" && has.member(asks.name) == "alive" })
	take := takes{t: t, asks: asks, has: has, other: other}

	piece := 0
	take.fails("one byte is another", r.Ref("small:v1"), pulled["small:v1"].Digest, func(b []byte) ([]byte, error) {
		b[len(b)/2] ^= 1
		return b, nil
	})
	take.fails("it breaks off", r.Ref("small:v1"), pulled["small:v1"].Digest, func(b []byte) ([]byte, error) {
		if piece++; piece == 2 {
			return nil, fs.ErrClosed
		}
		return b, nil
	})
	take.engine(r.Ref("engine:v1"), pulled["engine:v1"])
	for _, path := range []string{"/v1/engineimages?", "/v1/engineimages/parts?", "/v1/engineimages/piece?", "/api/engineimages?"} {
		answer, err := quick.Get(has.url() + path + "digest=" + pulled["engine:v1"].Digest)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s from a stranger: %d", path, answer.StatusCode)
		}
	}
	piece = 0
	take.fails("the member ends", r.Ref("small:v1"), pulled["small:v1"].Digest, func(b []byte) ([]byte, error) {
		if piece++; piece == 1 {
			if err := ends(); err != nil {
				t.Error(err)
			}
		}
		return b, nil
	})
}

// takes is what one node takes from another, into a Docker of its own.
type takes struct {
	t         *testing.T
	asks, has *fellow
	other     *otherDocker
}

func (s takes) docker(args ...string) string {
	s.t.Helper()
	return dockerSays(s.t, append([]string{"-H", s.other.host()}, args...)...)
}

// fails has nothing come that leaves anything.
func (s takes) fails(name, image, digest string, spoil func(b []byte) ([]byte, error)) {
	s.t.Helper()
	before := s.docker("images", "-a", "-q")
	var notes []string
	_, err := stockOf(s.t, s.asks, s.other.host(), copies{s.t, s.asks, spoil}).Pull(s.t.Context(),
		images.Order{Image: image, Digest: digest, Note: func(text string) { notes = append(notes, text) }})
	if err == nil || !strings.Contains(strings.Join(notes, "\n"), s.has.name+" does not give it") {
		s.t.Errorf("%s: %v, %q", name, err, notes)
	}
	if left := s.docker("images", "-a", "-q"); left != before {
		s.t.Errorf("%s: left in Docker: %s", name, left)
	}
	holds(s.t, "Docker has cleared its disk", func() bool {
		left, err := os.ReadDir(filepath.Join(s.other.dir, "data", "tmp"))
		return err == nil && len(left) == 0
	})
}

// engine takes an engine's image, and runs it.
func (s takes) engine(image string, there images.Held) {
	s.t.Helper()
	var last, total int64
	held, err := stockOf(s.t, s.asks, s.other.host(), copies{t: s.t, f: s.asks}).Pull(s.t.Context(),
		images.Order{Image: image, Digest: there.Digest, Tell: func(done, all int64) { last, total = done, all }})
	if err != nil {
		s.t.Fatal(err)
	}
	if held.ID != there.ID || held.Digest != there.Digest || last != total || total < 1<<20 {
		s.t.Errorf("held %+v, there it is %+v; %d of %d bytes", held, there, last, total)
	}
	if id := s.docker("image", "inspect", "--format", "{{.Id}}", image); id != held.ID {
		s.t.Errorf("%s is %s", image, id)
	}
	if names := s.docker("images", "--format", "{{.Repository}}"); strings.Contains(names, "arrived") {
		s.t.Errorf("names: %s", names)
	}
	if says := s.docker("run", "--rm", "--network", "none", held.ID, "--version"); !strings.Contains(says, "version") {
		s.t.Errorf("it says %s", says)
	}
}

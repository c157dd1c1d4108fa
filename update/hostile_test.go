package update_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"viiwork/update"
)

// sparse is an archive whose program is so many zeros and costs nothing: the library that writes archives makes none.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	var records strings.Builder
	for _, r := range []string{fmt.Sprintf("GNU.sparse.size=%d", size), "GNU.sparse.numblocks=1", "GNU.sparse.map=0,1"} {
		n := len(r) + 4 // two digits, a blank and the end of the line
		fmt.Fprintf(&records, "%d %s\n", n, r)
	}
	var plain, out bytes.Buffer
	for _, part := range []struct {
		kind byte
		text string
	}{{tar.TypeXHeader, records.String()}, {tar.TypeReg, "x"}} {
		block := make([]byte, 512)
		copy(block, inLayer)
		copy(block[100:], "0000755\x000000000\x000000000\x00")
		copy(block[124:], fmt.Sprintf("%011o\x0000000000000\x00        ", len(part.text)))
		block[156] = part.kind
		copy(block[257:], "ustar\x0000")
		sum := 0
		for _, b := range block {
			sum += int(b)
		}
		copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
		plain.Write(block)
		plain.WriteString(part.text)
		plain.Write(make([]byte, 512-len(part.text)))
	}
	plain.Write(make([]byte, 1024))
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write(plain.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestHolesInALayerAreNoBomb: a program of nothing but a hole is as large as it says, and the archive is small.
func TestHolesInALayerAreNoBomb(t *testing.T) {
	if got, err := update.Unpack(sparse(t, 1000)); err != nil || len(got) != 1000 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if got, err := update.Unpack(sparse(t, 256<<20+1)); err == nil || len(got) > 0 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

// guide answers every question with a way to somewhere else.
type guide struct {
	to    string
	mu    sync.Mutex
	asked []string
}

func (g *guide) RoundTrip(req *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, req.URL.Host)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req, Body: http.NoBody}
	if req.URL.Path != "/v2/" {
		resp.StatusCode = http.StatusTemporaryRedirect
		resp.Header.Set("Location", g.to)
	}
	return resp, nil
}

// TestRegistryLeadsNobodyAstray: what it names is neither asked in the clear nor where clouds keep their secrets.
func TestRegistryLeadsNobodyAstray(t *testing.T) {
	for _, to := range []string{
		"http://plain.example/x", "https://169.254.169.254/latest/meta-data", "https://[fe80::1]/x", "https://[::ffff:169.254.169.254]/x",
	} {
		w, g := newWorld(t), &guide{to: to}
		u := w.updater("v1.0.0", func(c *update.Config) { c.Source, c.Transport = "registry.example/owner/viiwork", g })
		_, _, err := u.Find(t.Context(), version, false)
		if err == nil {
			t.Errorf("%s: %v", to, err)
		}
		if slices.ContainsFunc(g.asked, func(host string) bool { return host != "registry.example" }) {
			t.Errorf("%s: %v were asked", to, g.asked)
		}
	}
}

// rude refuses at length, and drives the terminal.
type rude struct{}

func (rude) RoundTrip(req *http.Request) (*http.Response, error) {
	text := strings.Repeat("\x1b[2J\x1b]0;owned\a", 4000)
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Request: req, Body: readCloser{strings.NewReader(text)}}, nil
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestRegistrysWordsAreShortAndPlain(t *testing.T) {
	w := newWorld(t)
	u := w.updater("v1.0.0", func(c *update.Config) { c.Transport = rude{} })
	_, checkErr := u.Check(t.Context())
	_, _, findErr := u.Find(t.Context(), version, false)
	for _, err := range []error{checkErr, findErr} {
		if err == nil || len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\x1b\a") {
			t.Errorf("%d bytes: %.300q", len(fmt.Sprint(err)), err)
		}
	}
}

// TestPipeInPlaceOfWhatIsKeptIsNotWaitedFor: nor is anything passed over that keeps a node from going back.
func TestPipeInPlaceOfWhatIsKeptIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "update.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := update.New(update.Config{Publisher: publisher, StateDir: dir}); err == nil || !strings.Contains(err.Error(), "plain file") {
		t.Errorf("update.json: %v", err)
	}
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "trust"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "trust", "trusted_root.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := update.New(update.Config{Publisher: publisher, StateDir: dir}); err != nil { // it has its own
		t.Errorf("trusted_root.json: %v", err)
	}
}

// TestRootGivesNothingAwayThatIsNotOurs: the node's user may have laid another name of a stranger's file there.
func TestRootGivesNothingAwayThatIsNotOurs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	w := newWorld(t)
	w.publish(version)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "shadow"), []byte("secret"))
	trust := filepath.Join(w.state, "trust")
	if err := os.Mkdir(trust, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(outside, "shadow"), filepath.Join(trust, "mine")); err != nil {
		t.Skip("another file system: ", err)
	}
	if err := os.Symlink(outside, filepath.Join(trust, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(w.state, 4711, 4711); err != nil {
		t.Fatal(err)
	}
	_, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	wantAccepted(t, r, err)
	owner := func(path string) uint32 {
		stat, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return stat.Sys().(*syscall.Stat_t).Uid
	}
	if owner(filepath.Join(outside, "shadow")) != 0 || owner(outside) != 0 {
		t.Error("what is root's was given away")
	}
	for _, ours := range []string{"update.json", "trust"} {
		if owner(filepath.Join(w.state, ours)) != 4711 {
			t.Errorf("%s stays root's", ours)
		}
	}
}

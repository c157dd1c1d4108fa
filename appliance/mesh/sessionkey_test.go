package mesh_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

var nextSecret = []byte("fedcba9876543210fedcba9876543210")

// sessionKey is of a node that began at a time.
func sessionKey(dir string, k *mesh.Keyring, began time.Time) *mesh.SessionKey {
	s := mesh.NewSessionKey(mesh.SessionKeyConfig{StateDir: dir, Keys: k, Now: func() time.Time { return began }})
	s.Load()
	return s
}

var began = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func TestOneSecretGivesOneSessionKey(t *testing.T) {
	one, other, open := keys(t, mesh.KeyConfig{Secret: secret}), keys(t, mesh.KeyConfig{Secret: nextSecret}), keys(t, mesh.KeyConfig{})
	a := sessionKey("", one, began).Bytes()
	if !bytes.Equal(a, sessionKey("", one, began.Add(time.Hour)).Bytes()) {
		t.Error("two nodes with one secret have two keys")
	}
	b, o := sessionKey("", other, began).Bytes(), sessionKey("", open, began).Bytes()
	if bytes.Equal(a, b) || bytes.Equal(a, o) || bytes.Equal(b, o) || len(a) != 32 || len(o) != 32 {
		t.Error("two meshes have one key")
	}
	dir := t.TempDir()
	s := sessionKey(dir, open, began)
	if mesh.Tell(s) != nil {
		t.Error("an open mesh tells its key")
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Error("an open mesh keeps its key")
	}
	mesh.Learn(s, mesh.Tell(sessionKey("", one, began.Add(-time.Hour))))
	if !bytes.Equal(s.Bytes(), o) {
		t.Error("an open mesh learns a key")
	}
}

// TestTheSessionKeyOutlivesTheSecret, through each step of its replacement and a restart in each.
func TestTheSessionKeyOutlivesTheSecret(t *testing.T) {
	dir := t.TempDir()
	k := keys(t, mesh.KeyConfig{Secret: secret})
	s := sessionKey(dir, k, began)
	want := s.Bytes()
	steps := []mesh.KeyConfig{{Secret: secret, Prev: nextSecret}, {Secret: nextSecret, Prev: secret}, {Secret: nextSecret}}
	for i, step := range steps {
		k.Store(keys(t, step).Load())
		told := mesh.Tell(s) // as each report does
		if !bytes.Equal(s.Bytes(), want) {
			t.Fatalf("step %d has another key", i)
		}
		restarted := sessionKey(dir, k, began.Add(time.Hour))
		if !bytes.Equal(restarted.Bytes(), want) {
			t.Fatalf("step %d has another key after a restart", i)
		}
		newcomer := sessionKey("", k, began.Add(2*time.Hour))
		mesh.Learn(newcomer, told)
		if !bytes.Equal(newcomer.Bytes(), want) {
			t.Fatalf("step %d: who comes in does not learn the key", i)
		}
		mesh.Learn(s, mesh.Tell(newcomer))
		if !bytes.Equal(s.Bytes(), want) {
			t.Fatalf("step %d: who comes in brings another key", i)
		}
		s = restarted
	}
	if info, err := os.Stat(filepath.Join(dir, "session-key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestAnotherMeshsSessionKeyIsLeftBehind: a node that changes its mesh takes nothing along, though its key is older.
func TestAnotherMeshsSessionKeyIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	before, now := keys(t, mesh.KeyConfig{Secret: secret}), keys(t, mesh.KeyConfig{Secret: nextSecret})
	old := sessionKey(dir, before, began)
	there := sessionKey("", now, began.Add(time.Hour))
	want := there.Bytes()
	moved := sessionKey(dir, now, began.Add(2*time.Hour))
	mesh.Learn(there, mesh.Tell(old))
	mesh.Learn(there, mesh.Tell(moved))
	if !bytes.Equal(there.Bytes(), want) || !bytes.Equal(moved.Bytes(), want) {
		t.Error("the key of another mesh came along")
	}
	for _, broken := range []string{"", "x", strings.Repeat("x", 68), strings.Repeat("x", 1<<20)} {
		if err := os.WriteFile(filepath.Join(dir, "session-key"), []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sessionKey(dir, now, began).Bytes(), want) {
			t.Errorf("a file of %d bytes makes another key", len(broken))
		}
	}
}

// TestAllHaveTheOldestSessionKey, in whatever order they hear of each other, once each has heard of each after the last
// change.
func TestAllHaveTheOldestSessionKey(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	now := keys(t, mesh.KeyConfig{Secret: nextSecret, Prev: secret})
	for range 50 {
		var nodes []*mesh.SessionKey
		for i := range 2 + r.IntN(5) {
			k := keys(t, mesh.KeyConfig{Secret: [][]byte{secret, nextSecret}[r.IntN(2)]})
			nodes = append(nodes, sessionKey("", k, began.Add(time.Duration(r.IntN(3)+i%2)*time.Hour)))
			k.Store(now.Load())
		}
		for round := range 4 * len(nodes) {
			for range 5 {
				a, b := r.IntN(len(nodes)), r.IntN(len(nodes))
				mesh.Learn(nodes[a], mesh.Tell(nodes[b]))
			}
			if round < 3*len(nodes) {
				continue
			}
			for _, a := range nodes {
				for _, b := range nodes {
					mesh.Learn(a, mesh.Tell(b))
				}
			}
		}
		for _, s := range nodes[1:] {
			if !bytes.Equal(s.Bytes(), nodes[0].Bytes()) {
				t.Fatalf("%d nodes have several keys", len(nodes))
			}
		}
	}
}

// TestWhoComesInHasTheMeshsSessionKey: the members' reports bring it, also when it changes later.
func TestWhoComesInHasTheMeshsSessionKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork()
		first, then := keys(t, mesh.KeyConfig{Secret: secret}), keys(t, mesh.KeyConfig{Secret: nextSecret})
		all := func() []mesh.Member { return []mesh.Member{member(1), member(2)} }
		old := sessionKey("", first, began)
		first.Store(then.Load()) // its secret was replaced
		newcomer := sessionKey("", then, began.Add(time.Hour))
		if bytes.Equal(old.Bytes(), newcomer.Bytes()) {
			t.Fatal("the newcomer guessed it")
		}
		var nodes []*node
		for i, s := range []*mesh.SessionKey{old, newcomer} {
			n := newNode(t, member(i+1), then, net.DialContext)
			n.members, n.session = all, s
			nodes = append(nodes, n.start(net.listen(n.Addr)))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !bytes.Equal(old.Bytes(), newcomer.Bytes()) {
			t.Error("the newcomer has another key")
		}
		for _, n := range nodes {
			n.stop()
		}
	})
}

func TestTheSessionKeyDoesNotPrint(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	s := sessionKey("", k, began)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s)
	text := fmt.Sprintf("%v %+v %#v %s", s, s, s, log.String())
	for _, secret := range []string{fmt.Sprintf("%x", s.Bytes()), fmt.Sprint(s.Bytes()), string(s.Bytes())} {
		if strings.Contains(text, strings.Trim(secret, "[]")) {
			t.Error("it prints: " + text)
		}
	}
	if bytes.Contains(mesh.Tell(s), s.Bytes()) {
		t.Error("it is told as it is")
	}
}

// FuzzSessionKeyFromAMember: nothing that is not sealed with the mesh's secret changes it.
func FuzzSessionKeyFromAMember(f *testing.F) {
	k, other := keys(f, mesh.KeyConfig{Secret: secret}), keys(f, mesh.KeyConfig{Secret: nextSecret})
	f.Add([]byte{})
	f.Add(mesh.Tell(sessionKey("", k, began)))
	f.Add(mesh.Tell(sessionKey("", other, time.UnixMilli(1))))
	f.Add(bytes.Repeat([]byte("x"), 68))
	f.Fuzz(func(t *testing.T, told []byte) {
		s := sessionKey("", k, began)
		want := s.Bytes()
		mesh.Learn(s, told)
		if !bytes.Equal(s.Bytes(), want) {
			t.Error("it was taken over")
		}
	})
}

package update_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"viiwork/update"
	"viiwork/update/updatetest"
)

// TestStaleTrustRootIsRefreshed: a machine slept through a change of keys, meets a release by the new ones, and fetches
// them. What it fetched it still has in its next life, without a network.
func TestStaleTrustRootIsRefreshed(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	mirror := updatetest.NewMirror(t, w.sig.Root(), time.Now().AddDate(1, 0, 0))
	old := updatetest.New(t).Root()
	online := func(c *update.Config) {
		c.Trust = update.TrustConfig{Root: old, Mirror: mirror.URL, TUFRoot: mirror.Root, Transport: mirror}
	}
	offline := func(c *update.Config) {
		c.Trust = update.TrustConfig{Root: old, Mirror: mirror.URL, TUFRoot: mirror.Root, Transport: nobody{}}
	}
	_, r, err := w.updater("v1.0.0", offline).Find(t.Context(), version, false)
	wantRefused(t, r, err, "log", "does not know the log")
	_, r, err = w.updater("v1.0.0", online).Find(t.Context(), version, false)
	wantAccepted(t, r, err)
	if !strings.HasPrefix(r.TrustRoot, "fetched ") {
		t.Errorf("the trust root is said to be %q", r.TrustRoot)
	}
	_, r, err = w.updater("v1.0.0", offline).Find(t.Context(), version, false)
	wantAccepted(t, r, err)
	asked := mirror.Asked()
	if _, _, err = w.updater("v1.0.0", online).Find(t.Context(), version, false); err != nil || mirror.Asked() != asked {
		t.Errorf("what is a minute old was fetched again: %v", err)
	}
}

func TestMirrorThatIsNotBelievedChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	evil := updatetest.New(t).Root()
	expired := updatetest.NewMirror(t, evil, time.Now().Add(-time.Hour))
	foreign := updatetest.NewMirror(t, evil, time.Now().AddDate(1, 0, 0))
	for name, trust := range map[string]update.TrustConfig{
		"expired": {Mirror: expired.URL, TUFRoot: expired.Root, Transport: expired},
		"foreign": {Mirror: foreign.URL, TUFRoot: updatetest.NewMirror(t, nil, time.Now().AddDate(1, 0, 0)).Root, Transport: foreign},
	} {
		t.Run(name, func(t *testing.T) {
			trust.Root = w.sig.Root()
			w.state = t.TempDir()
			o, err := w.updater("v1.0.0", func(c *update.Config) { c.Trust = trust }).Check(t.Context())
			if err != nil || o.Version != version {
				t.Fatalf("%+v, %v", o, err)
			}
			if !strings.Contains(strings.Join(o.Warnings, "\n"), "refreshing the trust root") {
				t.Errorf("nothing is said of it: %q", o.Warnings)
			}
		})
	}
}

func TestDamagedTrustRootIsPassedOver(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	path := filepath.Join(w.state, "trust", "trusted_root.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	mirror := updatetest.NewMirror(t, w.sig.Root(), time.Now().AddDate(1, 0, 0))
	for _, text := range []string{"", "{", `{"fetched":"2026-01-01T00:00:00Z","root":{"mediaType":"other"}}`} {
		write(t, path, []byte(text))
		u := w.updater("v1.0.0", func(c *update.Config) {
			c.Trust = update.TrustConfig{Root: w.sig.Root(), Mirror: mirror.URL, TUFRoot: mirror.Root, Transport: nobody{}}
		})
		_, r, err := u.Find(t.Context(), version, false)
		wantAccepted(t, r, err)
	}
}

// TestOwnTrustRootIsReadable: the one that every build carries. It knows Sigstore's services and not the tests'.
func TestOwnTrustRootIsReadable(t *testing.T) {
	trust, err := update.LoadTrust(update.TrustConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := update.ParsePublisher(publisher)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "viiwork")
	write(t, file, []byte(content))
	write(t, file+".sigstore.json", newWorld(t).sig.Sign(signing(sum(content))))
	r, err := update.NewVerifier(p, trust).File(file, "", version)
	wantRefused(t, r, err, "log", "does not know the log")
}

func TestFilesAreForTheirOwnerAlone(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	mirror := updatetest.NewMirror(t, w.sig.Root(), time.Now().AddDate(1, 0, 0))
	u := w.updater("v1.0.0", func(c *update.Config) {
		c.Trust = update.TrustConfig{Root: w.sig.Root(), Mirror: mirror.URL, TUFRoot: mirror.Root, Transport: mirror}
	})
	if _, err := u.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"update.json", "trust/trusted_root.json"} {
		stat, err := os.Stat(filepath.Join(w.state, name))
		if err != nil || stat.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, stat, err)
		}
	}
}

func TestStateDirectoryThatCannotBeWrittenIsSaid(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	blocked := filepath.Join(t.TempDir(), "file")
	write(t, blocked, nil)
	w.state = filepath.Join(blocked, "state") // below a file there is no directory, not even for root
	_, err := update.New(update.Config{Publisher: publisher, Source: w.reg.Name, StateDir: w.state, Transport: w.reg, Trust: update.TrustConfig{Root: w.sig.Root()}})
	var path *os.PathError
	if !errors.As(err, &path) {
		t.Fatalf("got %v", err)
	}
}

func TestWhatRootWritesBelongsToTheNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	w := newWorld(t)
	w.publish(version)
	const user = 4711
	if err := os.Chown(w.state, user, user); err != nil {
		t.Fatal(err)
	}
	mirror := updatetest.NewMirror(t, w.sig.Root(), time.Now().AddDate(1, 0, 0))
	u := w.updater("v1.0.0", func(c *update.Config) {
		c.Trust = update.TrustConfig{Root: w.sig.Root(), Mirror: mirror.URL, TUFRoot: mirror.Root, Transport: mirror}
	})
	if _, err := u.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(w.state, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		stat, err := d.Info()
		if err == nil && stat.Sys().(*syscall.Stat_t).Uid != user {
			t.Errorf("%s is root's", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

package update_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/update"
	"viiwork/update/updatetest"
)

// attackers is a proof that is good but for who signed it: whoever may push can make one.
func (w *world) attackers(index string) []byte {
	by := updatetest.Run("attacker/viiwork", version, commit)
	return w.sig.Sign(updatetest.Signing{Identity: by, Statement: statement(by, map[string]string{"index": index})})
}

func TestGoodProofIsFoundBesideAttackers(t *testing.T) {
	for name, set := range map[string]func(*updatetest.Registry){
		"by the API": func(*updatetest.Registry) {},
		"by the tag": func(r *updatetest.Registry) { r.NoReferrers.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			set(w.reg)
			dir, index := w.layout(version, programs(version))
			w.push(dir, version, []byte("rubbish"), w.attackers(index), w.prove(version, index), w.attackers(index), []byte("{}"))
			_, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
			wantAccepted(t, r, err)
			if r.Bundles != 5 {
				t.Errorf("%d proofs were found, want 5", r.Bundles)
			}
		})
	}
}

func TestAttackersProofAloneIsRefused(t *testing.T) {
	w := newWorld(t)
	dir, index := w.layout(version, programs(version))
	w.push(dir, version, w.attackers(index), []byte("rubbish"))
	_, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	wantRefused(t, r, err, "identity", "signer (SAN)") // and not what was wrong with the rubbish
}

func TestReleaseWithoutProofIsRefused(t *testing.T) {
	w := newWorld(t)
	dir, _ := w.layout(version, programs(version))
	w.push(dir, version)
	_, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	wantRefused(t, r, err, "bundle", "none was found")
}

func TestProofIsFoundByItsTagWhereTheAPIHidesIt(t *testing.T) {
	w := newWorld(t)
	w.reg.NoReferrers.Store(true)
	w.publish(version)
	w.reg.NoReferrers.Store(false)
	w.reg.Hide.Store(true)
	_, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	wantAccepted(t, r, err)
}

func TestProofsAreBounded(t *testing.T) {
	w := newWorld(t)
	dir, _ := w.layout(version, programs(version))
	var rubbish [][]byte
	for i := range 40 {
		rubbish = append(rubbish, []byte(strings.Repeat("x", i+1)))
	}
	w.push(dir, version, rubbish...)
	_, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	if err == nil || r.Bundles > 32 {
		t.Fatalf("%d proofs were tried, %v", r.Bundles, err)
	}
}

func TestTagThatMovesAfterVerificationChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	found, _, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	if err != nil {
		t.Fatal(err)
	}
	dir, _ := w.layout(version, programs("evil"))
	w.push(dir, version)
	var out bytes.Buffer
	if _, err := found.Program(t.Context(), amd64, &out); err != nil || out.String() != string(programs(version)[amd64]) {
		t.Fatalf("%q, %v", out.String(), err)
	}
}

func TestTagThatMovesToUnsignedIndexIsRefused(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	dir, _ := w.layout(version, programs("evil"))
	w.push(dir, version)
	_, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	wantRefused(t, r, err, "bundle", "none was found")
}

// TestClockHasNoSay: the machine believes that it is the year 2000, then 2060.
func TestClockHasNoSay(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	synctest.Test(t, func(t *testing.T) {
		u := w.updater("v1.0.0", nil)
		for range 2 {
			_, r, err := u.Find(t.Context(), version, false)
			wantAccepted(t, r, err)
			time.Sleep(60 * 365 * 24 * time.Hour)
		}
	})
}

func TestRegistryThatDripsIsLeft(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	synctest.Test(t, func(t *testing.T) {
		u := w.updater("v1.0.0", nil)
		found, _, err := u.Find(t.Context(), version, false)
		if err != nil {
			t.Fatal(err)
		}
		w.reg.Drip.Store(true)
		for name, ask := range map[string]func() error{
			"check":   func() error { _, err := u.Check(t.Context()); return err },
			"find":    func() error { _, _, err := u.Find(t.Context(), version, false); return err },
			"program": func() error { _, err := found.Program(t.Context(), amd64, io.Discard); return err },
		} {
			began := time.Now()
			if err := ask(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("%s waited for %v", name, took)
			}
		}
	})
}

func TestAskingEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := w.updater("v1.0.0", nil).Find(ctx, version, false); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestRegistrysRefusalSaysWhatToDo(t *testing.T) {
	w := newWorld(t)
	for status, want := range map[int64]string{
		http.StatusNotFound: "no such release", http.StatusForbidden: "does not give this to everybody",
	} {
		w.reg.Refuse.Store(status)
		if _, _, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", status, err)
		}
	}
	offline := w.updater("v1.0.0", func(c *update.Config) { c.Transport = nobody{} })
	if _, err := offline.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "check the network") {
		t.Errorf("without a network: %v", err)
	}
}

// TestDirectoryNeedsNoNetwork: what a stick brings is believed by the same proof.
func TestDirectoryNeedsNoNetwork(t *testing.T) {
	w := newWorld(t)
	dir, index := w.layout(version, programs(version))
	write(t, filepath.Join(dir, "other.sigstore.json"), w.attackers(index))
	write(t, filepath.Join(dir, "viiwork-"+version+".sigstore.json"), w.prove(version, index))
	u := w.updater("v1.0.0", func(c *update.Config) { c.Source, c.Transport = dir, nobody{} })
	o, err := u.Check(t.Context())
	if err != nil || o.Version != version || !o.New || len(o.Warnings) > 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	found, r, err := u.Find(t.Context(), version, false)
	wantAccepted(t, r, err)
	var out bytes.Buffer
	if _, err := found.Program(t.Context(), amd64, &out); err != nil || out.String() != string(programs(version)[amd64]) {
		t.Fatalf("%q, %v", out.String(), err)
	}
}

func TestLinkOutOfDirectoryIsNotFollowed(t *testing.T) {
	w := newWorld(t)
	dir, index := w.layout(version, programs(version))
	outside := filepath.Join(t.TempDir(), "proof")
	write(t, outside, w.prove(version, index))
	if err := os.Symlink(outside, filepath.Join(dir, "x.sigstore.json")); err != nil {
		t.Fatal(err)
	}
	_, r, err := w.updater("v1.0.0", func(c *update.Config) { c.Source = dir }).Find(t.Context(), version, false)
	wantRefused(t, r, err, "bundle", "none was found")
}

func TestSourceThatIsNoneIsRefused(t *testing.T) {
	if _, err := update.OpenSource("https://me:secret@mirror.example.org/x", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"", t.TempDir(), "viiwork", "https://ghcr.io/owner/viiwork", "ghcr.io/OWNER/viiwork", "/no/such/dir", "a\nb"} {
		if _, err := update.OpenSource(name, nil); err == nil {
			t.Errorf("%q was opened", name)
		}
	}
}

// endless answers everything with a list of names that has no end.
type endless struct{ read *atomic.Int64 }

func (e endless) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req, Body: e, ContentLength: -1}, nil
}

func (e endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	if e.read.Load() > 64<<20 {
		return 0, io.ErrUnexpectedEOF // enough for a test to fail by
	}
	for i := range p {
		p[i] = 'a'
	}
	if e.read.Load() <= int64(len(p)) {
		copy(p, `{"tags":["`)
	}
	return len(p), nil
}

func (e endless) Close() error { return nil }

func TestEndlessListOfVersionsIsLeft(t *testing.T) {
	w := newWorld(t)
	far := endless{new(atomic.Int64)}
	if _, err := w.updater("v1.0.0", func(c *update.Config) { c.Transport = far }).Check(t.Context()); err == nil {
		t.Fatal("it came to an end")
	}
	if n := far.read.Load(); n > 16<<20 {
		t.Errorf("%d bytes were read", n)
	}
}

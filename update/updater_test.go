package update_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/update"
)

func TestNewestProvedReleaseIsOffered(t *testing.T) {
	w := newWorld(t)
	for _, v := range []string{"v1.2.3", "v1.10.0", "v1.9.9"} {
		w.publish(v)
	}
	w.publish("v2.0.0-rc.1") // not unless asked for
	dir, _ := w.layout("v9.9.9", programs("evil"))
	w.push(dir, "v9.9.9") // no proof: it hides nothing
	o, err := w.updater("v1.2.3", nil).Check(t.Context())
	if err != nil || o.Version != "v1.10.0" || !o.New || o.Highest != "v1.10.0" || o.Report == nil || !o.Report.OK {
		t.Fatalf("%+v, %v", o, err)
	}
	if said := strings.Join(o.Warnings, "\n"); !strings.Contains(said, "v9.9.9") {
		t.Errorf("nothing is said of the release without a proof: %s", said)
	}
}

func TestWhatRunsIsNothingNew(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	o, err := w.updater(version, nil).Check(t.Context())
	if err != nil || o.New || o.Version != version {
		t.Fatalf("%+v, %v", o, err)
	}
}

func TestNothingProvedIsAnError(t *testing.T) {
	w := newWorld(t)
	dir, _ := w.layout(version, programs(version))
	w.push(dir, version)
	if o, err := w.updater("v1.0.0", nil).Check(t.Context()); err == nil || o.New || o.Version != "" || o.Highest != "" {
		t.Fatalf("%+v, %v", o, err)
	}
}

func TestOlderIsRefusedUntilAPersonAllowsIt(t *testing.T) {
	w := newWorld(t)
	w.publish("v1.2.3")
	w.publish("v1.3.0")
	if _, err := w.updater("v1.0.0", nil).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := w.updater("v1.0.0", nil) // a new process remembers
	if _, _, err := again.Find(t.Context(), "v1.2.3", false); !errors.Is(err, update.ErrDowngrade) || !strings.Contains(err.Error(), "--allow-downgrade") {
		t.Fatalf("got %v", err)
	}
	_, r, err := again.Find(t.Context(), "v1.2.3", true)
	wantAccepted(t, r, err)
	if _, _, err := again.Find(t.Context(), "v1.2.3", false); !errors.Is(err, update.ErrDowngrade) {
		t.Errorf("having gone back once, it goes back unasked: %v", err)
	}
}

func TestOlderThanWhatRunsIsRefused(t *testing.T) {
	w := newWorld(t)
	w.publish(version)
	if _, _, err := w.updater("v1.3.0", nil).Find(t.Context(), version, false); !errors.Is(err, update.ErrDowngrade) {
		t.Fatalf("got %v", err)
	}
}

func TestCandidateThatWasLookedAtKeepsNothingOut(t *testing.T) {
	w := newWorld(t)
	w.publish("v1.2.4")
	w.publish("v2.0.0-rc.1")
	u := w.updater(version, nil)
	_, r, err := u.Find(t.Context(), "v2.0.0-rc.1", false)
	wantAccepted(t, r, err)
	if o, err := u.Check(t.Context()); err != nil || o.Version != "v1.2.4" || !o.New {
		t.Fatalf("%+v, %v", o, err)
	}
}

func TestReleaseThatIsHeldBackIsSaid(t *testing.T) {
	w := newWorld(t)
	w.publish("v1.3.0")
	if _, err := w.updater("v1.0.0", nil).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := newWorld(t)
	old.sig, old.state = w.sig, w.state
	old.publish("v1.2.3")
	o, err := old.updater("v1.0.0", nil).Check(t.Context())
	if err != nil || o.New || !strings.Contains(strings.Join(o.Warnings, "\n"), "v1.3.0 was seen before") {
		t.Fatalf("%+v, %v", o, err)
	}
}

func TestUnprovedVersionRaisesNothing(t *testing.T) {
	w := newWorld(t)
	dir, index := w.layout("v9.9.9", programs("evil"))
	w.push(dir, "v9.9.9", w.attackers(index))
	u := w.updater("v1.0.0", nil)
	if _, _, err := u.Find(t.Context(), "v9.9.9", false); err == nil {
		t.Fatal("it was accepted")
	}
	if _, err := os.Stat(filepath.Join(w.state, "update.json")); err == nil {
		t.Fatal("it was remembered")
	}
}

func TestDamagedMemoryIsNotPassedOver(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{"", "{", `{"highest":"1.2"}`, strings.Repeat(" ", 1<<13)} {
		write(t, filepath.Join(w.state, "update.json"), []byte(text))
		_, err := update.New(update.Config{Publisher: publisher, Source: w.reg.Name, StateDir: w.state, Trust: update.TrustConfig{Root: w.sig.Root()}})
		if err == nil {
			t.Errorf("%q was passed over", text)
		}
	}
}

func TestBuildWithoutPublisherBelievesNobody(t *testing.T) {
	if _, err := update.New(update.Config{Source: "ghcr.io/owner/viiwork"}); !errors.Is(err, update.ErrNoPublisher) {
		t.Fatalf("got %v", err)
	}
}

func TestPublisherIsReadExactly(t *testing.T) {
	p, err := update.ParsePublisher(publisher)
	if err != nil || p.String() != publisher || p.Registry() != "ghcr.io/owner/viiwork" {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, text := range []string{
		"owner/viiwork", "https://" + publisher, publisher + "@refs/heads/main", publisher + "/x", "github.com//viiwork/.github/workflows/release.yml",
		"github.com/owner/../.github/workflows/release.yml", "github.com/owner/viiwork/.github/workflows/", "gitlab.com/owner/viiwork/.github/workflows/release.yml",
		"github.com/owner/vii work/.github/workflows/release.yml", "github.com/owner/.*/.github/workflows/release.yml",
	} {
		if _, err := update.ParsePublisher(text); err == nil {
			t.Errorf("%q was taken for a publisher", text)
		}
	}
}

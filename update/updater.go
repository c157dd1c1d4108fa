package update

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"

	"golang.org/x/mod/semver"
)

// tries is how many versions are examined, the newest first: a tag that anybody pushed must not hide the release below.
const tries = 8

// Config is what an Updater needs to know. A zero field has the default that is named.
type Config struct {
	Publisher string // as the build has it stamped in; "" = none, and nothing is ever believed
	Version   string // of the running program; "dev" or "" = older than any
	Source    string // directory or repository; "" = where the publisher's workflow puts releases
	StateDir  string // the newest version seen and fetched keys are kept here; "" = nowhere
	Trust     TrustConfig
	Transport http.RoundTripper // to registries; nil = the usual one
	Members   Members           // whose shelves are looked at before the source; nil = none
	Log       *slog.Logger      // nil = none
}

// Updater finds out what is new.
type Updater struct {
	cfg      Config
	source   *Source
	trust    *Trust
	verifier *Verifier
	seen     *memory
	shelf    *Shelf // nil = nothing is kept
}

// ErrDowngrade is wrapped by Find for a version older than the newest one seen here.
var ErrDowngrade = errors.New("it is older than what was seen here")

// New opens the source. It asks nobody. For a build without a publisher the error is ErrNoPublisher.
func New(cfg Config) (*Updater, error) {
	publisher, err := ParsePublisher(cfg.Publisher)
	if err != nil {
		return nil, err
	}
	if cfg.Source == "" {
		cfg.Source = publisher.Registry()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Trust.StateDir, cfg.Trust.Log = cfg.StateDir, cfg.Log
	u := &Updater{cfg: cfg}
	if u.source, err = OpenSource(cfg.Source, cfg.Transport); err != nil {
		return nil, err
	}
	if cfg.StateDir != "" {
		u.shelf = OpenShelf(cfg.StateDir)
		kept := &shelved{place: u.source.at, shelf: u.shelf, members: cfg.Members}
		if u.source.local() { // it is nearer than any member
			kept.members = nil
		}
		u.source = &Source{u.source.name, kept}
	}
	if u.trust, err = LoadTrust(cfg.Trust); err != nil {
		return nil, err
	}
	if u.seen, err = recallHighest(cfg.StateDir); err != nil {
		return nil, err
	}
	u.verifier = NewVerifier(publisher, u.trust)
	return u, nil
}

// Offer is what Check found; it is the JSON of 'update --check --json'.
type Offer struct {
	Running  string   `json:"running"`
	Highest  string   `json:"highest"` // the newest version ever verified here; "" = none
	Source   string   `json:"source"`
	Version  string   `json:"version"` // the newest one there whose proof holds; "" = none
	New      bool     `json:"new"`     // it is newer than what runs and not older than Highest
	Report   *Report  `json:"report"`  // how it was proved; null = nothing was
	Warnings []string `json:"warnings"`
}

// Check asks the source for the newest release whose proof holds. Release candidates are left out.
func (u *Updater) Check(ctx context.Context) (offer Offer, err error) {
	defer func() { err = errors.Join(err, u.handOver()) }()
	o := Offer{Running: u.cfg.Version, Source: u.source.String(), Warnings: []string{}}
	u.refresh(ctx, &o)
	offered, err := u.source.at.versions(ctx)
	if err != nil {
		return o, fmt.Errorf("looking for releases in %s: %w", u.source, err)
	}
	offered = slices.DeleteFunc(offered, func(v string) bool { return !isFinal(v) })
	slices.SortFunc(offered, func(a, b string) int { return semver.Compare(b, a) })
	offered = slices.Compact(offered)
	var worst error
	for _, version := range offered[:min(tries, len(offered))] {
		_, report, err := u.verifier.Release(ctx, u.source, version)
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		if err != nil {
			worst = errors.Join(worst, err)
			o.Warnings = append(o.Warnings, printable(err.Error()))
			continue
		}
		if err := u.seen.raise(version); err != nil {
			return o, err
		}
		o.Version, o.Report = version, &report
		break
	}
	o.Highest = u.seen.get()
	o.New = o.Version != "" && newer(o.Version, u.floor()) == o.Version && o.Version != u.cfg.Version
	switch {
	case o.Version == "" && worst != nil:
		return o, worst
	case o.Version != "" && semver.Compare(o.Version, o.Highest) < 0:
		o.Warnings = append(o.Warnings, fmt.Sprintf("the newest release there is %s, but %s was seen before: somebody holds it back, or the mirror is old", o.Version, o.Highest))
	}
	return o, nil
}

// Find verifies one version. One older than what was seen here, or than what runs, is refused with ErrDowngrade unless a
// person allowed it. A release candidate is found by its name alone, and keeps nothing below it out.
func (u *Updater) Find(ctx context.Context, version string, allowDowngrade bool) (found *Verified, report Report, err error) {
	defer func() { err = errors.Join(err, u.handOver()) }()
	if err := CheckVersion(version); err != nil {
		return nil, Report{}, err
	}
	if floor := u.floor(); semver.Compare(version, floor) < 0 && !allowDowngrade {
		return nil, Report{}, fmt.Errorf("going back from %s to %s: %w: say --to %s --allow-downgrade if you want that", floor, version, ErrDowngrade, version)
	}
	var o Offer
	u.refresh(ctx, &o)
	found, report, err = u.verifier.Release(ctx, u.source, version)
	if err == nil && isFinal(version) {
		err = u.seen.raise(version)
	}
	if err != nil {
		return nil, report, err
	}
	if u.shelf != nil {
		if err := u.shelf.keep(found, [][]byte{found.proof.bundle}); err != nil {
			u.cfg.Log.Debug("the release is not kept for others", "error", err)
		}
	}
	return found, report, nil
}

// handOver leaves nothing of root's in a state directory of another user.
func (u *Updater) handOver() error {
	if u.cfg.StateDir == "" {
		return nil
	}
	err := giveTo(u.cfg.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// floor is the version below which a person must ask.
func (u *Updater) floor() string { return newer(u.seen.get(), u.cfg.Version) }

// refresh fetches the signing services' keys if the source is on the network anyway. Without them the old ones do.
func (u *Updater) refresh(ctx context.Context, o *Offer) {
	if u.source.local() {
		return
	}
	if err := u.trust.Refresh(ctx); err != nil {
		u.cfg.Log.Debug("the trust root was not refreshed", "error", err)
		o.Warnings = append(o.Warnings, printable(err.Error()))
	}
}

package update

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tuf"
	"github.com/theupdateframework/go-tuf/v2/metadata/fetcher"
)

// The keys of Sigstore's public services as they were when this program was made. Each release brings its own.
//
//go:embed trusted_root.json
var embeddedRoot []byte

// embeddedAt is the day of that file: what was fetched later replaces it, what was fetched before does not.
const embeddedAt = "2026-05-29"

const (
	maxRoot         = 1 << 20 // bytes
	refreshEvery    = 24 * time.Hour
	refreshPatience = time.Minute
)

// TrustConfig says where the keys of the signing services come from.
type TrustConfig struct {
	StateDir  string            // fetched keys are kept here, in trust/; "" = nowhere
	Root      []byte            // trusted_root.json in place of the embedded one; nil = that. Without a Mirror it stays
	Mirror    string            // URL of the TUF repository; "" = Sigstore's, where there is no Root
	TUFRoot   []byte            // its first keys; nil = Sigstore's
	Transport http.RoundTripper // nil = the usual one
	Log       *slog.Logger
}

// Trust holds the keys of the certificate authority, the logs and the timestamp authorities whose word is taken.
type Trust struct {
	cfg   TrustConfig
	fixed bool // somebody gave the keys: no others are looked for

	mu       sync.Mutex
	material *root.TrustedRoot
	from     string    // for people
	fetched  time.Time // by this machine's clock; zero = never
}

// LoadTrust takes the keys that were fetched last, else the embedded ones. It does not go to the network. A damaged file
// of fetched keys is said and passed over.
func LoadTrust(cfg TrustConfig) (*Trust, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	fixed := cfg.Root != nil && cfg.Mirror == ""
	if cfg.Mirror == "" {
		cfg.Mirror, cfg.TUFRoot = tuf.DefaultMirror, tuf.DefaultRoot()
	}
	t := &Trust{cfg: cfg, fixed: fixed, from: "this program's, of " + embeddedAt}
	text := embeddedRoot
	if cfg.Root != nil {
		text, t.from = cfg.Root, "a file that was given"
	}
	var err error
	if t.material, err = root.NewTrustedRootFromJSON(text); err != nil {
		return nil, fmt.Errorf("reading the trust root: %w", err)
	}
	if !fixed {
		t.recall()
	}
	return t, nil
}

// kept is the file of fetched keys.
type kept struct {
	Fetched time.Time       `json:"fetched"`
	Root    json.RawMessage `json:"root"`
}

func (t *Trust) file() string { return filepath.Join(t.cfg.StateDir, "trust", "trusted_root.json") }

func (t *Trust) recall() {
	if t.cfg.StateDir == "" {
		return
	}
	text, err := readKept(t.file(), maxRoot)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	var material *root.TrustedRoot
	if err == nil {
		material, err = root.NewTrustedRootFromJSON(k.Root)
	}
	if err != nil {
		t.cfg.Log.Warn("the fetched trust root cannot be read; using this program's", "file", t.file(), "error", err)
		return
	}
	if day, _ := time.Parse(time.DateOnly, embeddedAt); k.Fetched.Before(day) && t.cfg.Root == nil {
		return
	}
	t.material, t.fetched, t.from = material, k.Fetched, "fetched "+k.Fetched.UTC().Format(time.RFC3339)
}

// Refresh fetches the keys anew where they are older than a day. On failure the old ones stay in use.
func (t *Trust) Refresh(ctx context.Context) error {
	if t.fixed {
		return nil
	}
	t.mu.Lock()
	fetched, from := t.fetched, t.from
	t.mu.Unlock()
	now := time.Now()
	if age := now.Sub(fetched); !fetched.IsZero() && age >= 0 && age < refreshEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, refreshPatience)
	defer cancel()
	text, err := t.fetch(ctx)
	if err != nil {
		return fmt.Errorf("refreshing the trust root from %s: %w: check the network and this machine's clock; the root in use is %s", t.cfg.Mirror, err, from)
	}
	material, err := root.NewTrustedRootFromJSON(text)
	if err != nil {
		return fmt.Errorf("refreshing the trust root from %s: %w: update viiwork by hand if this stays", t.cfg.Mirror, err)
	}
	t.mu.Lock()
	t.material, t.fetched, t.from = material, now, "fetched "+now.UTC().Format(time.RFC3339)
	t.mu.Unlock()
	if t.cfg.StateDir == "" {
		return nil
	}
	doc, err := json.Marshal(kept{now, text})
	if err != nil {
		return fmt.Errorf("storing the trust root: %w", err)
	}
	return writeFile(t.file(), doc)
}

// fetch walks the chain of signed metadata. Its own cache lies beside our file; without a state directory there is none.
func (t *Trust) fetch(ctx context.Context) ([]byte, error) {
	transport := t.cfg.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	f := fetcher.NewDefaultFetcher()
	f.SetRetry(0, 1)
	f.SetHTTPClient(&http.Client{Transport: bound{ctx, transport}})
	opts := &tuf.Options{Root: t.cfg.TUFRoot, RepositoryBaseURL: t.cfg.Mirror, Fetcher: f, DisableLocalCache: t.cfg.StateDir == ""}
	if t.cfg.StateDir != "" {
		opts.CachePath = filepath.Join(t.cfg.StateDir, "trust", "tuf")
		if err := os.MkdirAll(opts.CachePath, 0o700); err != nil {
			return nil, err
		}
	}
	client, err := tuf.New(opts)
	if err != nil {
		return nil, err
	}
	return client.GetTarget("trusted_root.json")
}

// bound gives requests of a library that takes no context ours.
type bound struct {
	ctx  context.Context
	next http.RoundTripper
}

func (b bound) RoundTrip(req *http.Request) (*http.Response, error) {
	return b.next.RoundTrip(req.WithContext(b.ctx))
}

// current is the material in use, and where it is from.
func (t *Trust) current() (*root.TrustedRoot, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.material, t.from
}

package mesh

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
)

const (
	secretFile    = "secret"
	maxSecretFile = 8 << 10
	// maxGeneration keeps the count far from where it would begin anew.
	maxGeneration = 1 << 53
	// maxReplaced is how many secrets that were replaced are known again in a configuration.
	maxReplaced = 16
)

// stage is how far the secret is replaced, as one node has it.
type stage string

const (
	stageAccept stage = "accept" // both secrets are understood, the old one is used
	stageUse    stage = "use"    // both are understood, the new one is used
	stageDone   stage = "done"   // the new one is used everywhere; the old one, if it is still there, is about to be forgotten
)

// secretState is the mesh's secret as this node has it, and what its file holds.
type secretState struct {
	Generation uint64 `json:"generation"` // how often the mesh's secret was replaced; 0 = never, as far as this node knows
	Secret     []byte `json:"secret"`     // the new one; nil = an open mesh
	Prev       []byte `json:"prev,omitempty"`
	Stage      stage  `json:"stage"`
	By         string `json:"by,omitempty"` // id of the node that began it
	ByName     string `json:"by_name,omitempty"`
	Lead       string `json:"lead,omitempty"`  // the run that brought it, which alone may take it back; "" = there were several
	From       uint64 `json:"from,omitempty"`  // the generation that Prev had
	Since      int64  `json:"since,omitempty"` // when the stage came, milliseconds since 1970
	Configured string `json:"configured"`      // fingerprint of the secret that the configuration gave when this was written
	// Replaced are fingerprints of the secrets before, the oldest first: a configuration that gives one of them is behind.
	Replaced []string `json:"replaced,omitempty"`
}

// pending reports whether not all members may have the new secret yet.
func (s secretState) pending() bool { return s.Stage != stageDone }

// ruling is the secret in use, other the second one that is understood, nil if there is none.
func (s secretState) ruling() []byte {
	if s.Stage == stageAccept {
		return s.Prev
	}
	return s.Secret
}

func (s secretState) other() []byte {
	if s.Stage == stageAccept {
		return s.Secret
	}
	return s.Prev
}

// check is for what a file holds.
func (s secretState) check() error {
	switch {
	case s.Generation == 0 || s.Generation > maxGeneration || s.From >= s.Generation:
		return errors.New("its generation is none")
	case len(s.Secret) != secretBytes || len(s.Prev) != 0 && len(s.Prev) != secretBytes || bytes.Equal(s.Secret, s.Prev):
		return errors.New("its secrets are none")
	case s.Stage != stageAccept && s.Stage != stageUse && s.Stage != stageDone || s.pending() && len(s.Prev) == 0:
		return errors.New("its stage is none")
	case len(s.Replaced) > maxReplaced:
		return errors.New("it tells of more than was replaced")
	case s.By != "" && !isID(s.By) || s.ByName != "" && !isText(s.ByName):
		return errors.New("it does not say who wrote it")
	}
	return nil
}

// replacing gives the fingerprints of the secrets before the one that follows old.
func (s secretState) replacing(old []byte) []string {
	all := append(s.withoutReplaced(old), fingerprint(old))
	return all[max(len(all)-maxReplaced, 0):]
}

func (s secretState) withoutReplaced(secret []byte) []string {
	return slices.DeleteFunc(slices.Clone(s.Replaced), func(f string) bool { return f == fingerprint(secret) })
}

// SecretConfig says where a node's secret comes from.
type SecretConfig struct {
	StateDir     string // of the node; "" = what is replaced while it runs is not kept
	Secret, Prev []byte // as the configuration gives them; nil = an open mesh, no second one
}

// Secret is the mesh's secret by the rule that joins the configuration and what was replaced while the node ran. It prints
// as a placeholder.
type Secret struct {
	state secretState
	path  string // of the file; "" = none is kept
	hand  bool   // two secrets are configured: the owner replaces the old one with restarts
	aside string // why the file does not rule, "" when it does or there is none
	stray bool   // the file is broken
}

// ReadSecret finds the secret that rules. The file in the state folder, written when the mesh replaced its secret, beats
// the configuration, which may be updated at leisure, and to a secret that has been replaced itself meanwhile; but a
// configuration that gives yet another secret than it did when the file was written was changed after it: then the owner
// has spoken last. It changes nothing; a file that does not rule is set aside once the node runs.
func ReadSecret(cfg SecretConfig) Secret {
	given := fingerprint(cfg.Secret)
	s := Secret{state: secretState{Secret: cfg.Secret, Stage: stageDone, Configured: given}}
	if len(cfg.Prev) > 0 && !bytes.Equal(cfg.Prev, cfg.Secret) {
		s.hand, s.state.Prev, s.state.Stage = true, cfg.Prev, stageAccept
	}
	if cfg.StateDir == "" {
		return s
	}
	s.path = filepath.Join(cfg.StateDir, secretFile)
	kept, err := readState(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.aside, s.stray = err.Error(), true
	case bytes.Equal(kept.Secret, cfg.Secret): // the configuration has been brought up to date
		kept.Configured = given
		s.state, s.hand = kept, false
	case kept.Configured == given || slices.Contains(kept.Replaced, given):
		s.state, s.hand = kept, false
	default:
		s.aside = "the configuration gives another secret than it did when the file was written"
	}
	return s
}

func readState(path string) (s secretState, err error) {
	f, err := openKept(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch {
	case err != nil:
		return s, fmt.Errorf("reading the mesh secret: %w", err)
	case len(text) > maxSecretFile || json.Unmarshal(text, &s) != nil: // the decoder's own words may quote a secret
		return secretState{}, errors.New("it is not what viiwork wrote")
	}
	if err := s.check(); err != nil {
		return secretState{}, err
	}
	return s, nil
}

// Bytes gives the secret that this node uses now, nil in an open mesh: the one a new machine needs.
func (s Secret) Bytes() []byte {
	if s.hand {
		return bytes.Clone(s.state.Secret) // the old one is on its way out
	}
	return bytes.Clone(s.state.ruling())
}

// Keys derives the keys for a node that starts with this secret; enforce is as in KeyConfig.
func (s Secret) Keys(enforce string) (Keys, error) { return s.state.keys(enforce) }

func (s secretState) keys(enforce string) (Keys, error) {
	return NewKeys(KeyConfig{Secret: s.ruling(), Prev: s.other(), Enforce: enforce})
}

func (Secret) String() string       { return "(mesh secret)" }
func (Secret) GoString() string     { return "(mesh secret)" }
func (Secret) LogValue() slog.Value { return slog.StringValue("(mesh secret)") }

// store writes the file whole or not at all; a state that the configuration gives by itself needs none.
func (s secretState) store(path string) error {
	if path == "" {
		return nil
	}
	if s.Generation == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the mesh secret: %w", err)
		}
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("storing the mesh secret: %w", err)
	}
	if err := replaceFile(path, text); err != nil {
		return fmt.Errorf("storing the mesh secret: %w", err)
	}
	return nil
}

package mesh_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// replaced is a folder whose file was written by a replacement of secret, and the new one.
func replaced(t *testing.T) (dir string, now []byte) {
	dir = t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		defer c.end()
		if _, err := c.nodes[0].rotation.Rotate(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		now = mesh.ReadSecret(c.nodes[0].given).Bytes()
		text, err := os.ReadFile(filepath.Join(c.nodes[0].dir, "secret"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "secret"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	return dir, now
}

func TestKeptSecretBeatsTheConfigurationUntilThatChanges(t *testing.T) {
	dir, now := replaced(t)
	for name, c := range map[string]struct{ given, want []byte }{
		"the configuration as it was":       {secret, now},
		"brought up to date":                {now, now},
		"another one: the owner spoke last": {another, another},
		"opened":                            {nil, nil},
	} {
		if got := mesh.ReadSecret(mesh.SecretConfig{StateDir: dir, Secret: c.given}).Bytes(); !bytes.Equal(got, c.want) {
			t.Errorf("%s: another secret rules", name)
		}
	}
	if bytes.Equal(now, secret) || len(now) != 32 {
		t.Error("nothing was replaced")
	}
	info, err := os.Stat(filepath.Join(dir, "secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if got := mesh.ReadSecret(mesh.SecretConfig{StateDir: t.TempDir(), Secret: secret}).Bytes(); !bytes.Equal(got, secret) {
		t.Error("without a file the configured one must rule")
	}
}

// TestSecretThatWasReplacedDoesNotComeBack: the owner brings the configuration up to date without a restart, the secret is replaced
// once more, and only then the node is restarted.
func TestSecretThatWasReplacedDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		defer c.end()
		given, was := c.nodes[0].given, [][]byte{secret}
		for range 3 {
			if _, err := c.nodes[0].rotation.Rotate(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			was = append(was, mesh.ReadSecret(given).Bytes())
			time.Sleep(2 * time.Minute)
		}
		for i, old := range was {
			given.Secret = old
			if got := mesh.ReadSecret(given).Bytes(); !bytes.Equal(got, was[3]) {
				t.Errorf("a configuration with the secret after %d replacements: not the last one rules", i)
			}
		}
		given.Secret = another
		if got := mesh.ReadSecret(given).Bytes(); !bytes.Equal(got, another) {
			t.Error("the owner spoke last and is not heard")
		}
	})
}

func TestBrokenSecretFileIsSetAsideAndNamed(t *testing.T) {
	dir, _ := replaced(t)
	good, err := os.ReadFile(filepath.Join(dir, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	change := func(key string, value any) []byte {
		var m map[string]any
		if err := json.Unmarshal(good, &m); err != nil {
			t.Fatal(err)
		}
		m[key] = value
		text, _ := json.Marshal(m)
		return text
	}
	for name, text := range map[string][]byte{
		"empty": {}, "no JSON": []byte("secret"), "cut": good[:len(good)-9], "large": append(bytes.Repeat([]byte(" "), 9000), good...),
		"no generation": change("generation", 0), "a short secret": change("secret", secret[:31]), "an unknown stage": change("stage", "x"),
		"one secret twice": change("prev", secretOf(t, good)), "a stage without its second secret": change("prev", nil)[:0],
		"a strange author": change("by", "a b"), "a generation before the one before": change("from", 9),
		"a long past": change("replaced", make([]string, 17)),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "secret"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				c := newCircle(t, 1)
				defer c.end()
				h := c.nodes[0]
				h.stop()
				h.dir = dir
				h.start()
				synctest.Wait()
				w := h.rotation.Warnings()
				if !h.keys.SignsWith(secret) || len(w) != 1 || w[0].ID != "secret_file" || !strings.Contains(w[0].Text, dir) || w[0].Fix == "" {
					t.Errorf("warns %+v", w)
				}
			})
			kept, err := os.ReadFile(filepath.Join(dir, "secret.aside"))
			if _, there := os.Stat(filepath.Join(dir, "secret")); there == nil || err != nil || !bytes.Equal(kept, text) {
				t.Errorf("not set aside: %v", err)
			}
		})
	}
}

func secretOf(t *testing.T, text []byte) []byte {
	var s struct{ Secret []byte }
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s.Secret
}

func TestKeptSecretsDoNotPrint(t *testing.T) {
	s := mesh.ReadSecret(mesh.SecretConfig{Secret: secret, Prev: another})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, s) + fmt.Sprintf(verb, &s); strings.Contains(text, "0123") || len(text) > 60 {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}

func TestSecretsOfTheConfigurationAloneBeginWithTheOldOne(t *testing.T) {
	s := mesh.ReadSecret(mesh.SecretConfig{StateDir: t.TempDir(), Secret: another, Prev: secret})
	k, err := s.Keys("")
	if err != nil {
		t.Fatal(err)
	}
	if ring := mesh.NewKeyring(k); !ring.SignsWith(secret) || !bytes.Equal(s.Bytes(), another) {
		t.Error("a node that is restarted with both uses the new one at once, or a new machine is given the old one")
	}
}

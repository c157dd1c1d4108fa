package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	secretBytes = 32
	fileSuffix  = "_FILE" // appended to a variable's name: the file that holds the secret
	makeSecret  = "make one with 'openssl rand -base64 32'"
)

// readSecrets takes the mesh secret and the previous one out of the environment and holds them against mesh.open.
func (c *Config) readSecrets(env map[string]string, list *faultList) {
	// Somebody may have written the secret itself where its variable belongs: a fault already, and nothing to repeat.
	if !envWord.MatchString(c.Mesh.SecretEnv) || !envWord.MatchString(c.Mesh.SecretPrevEnv) {
		return
	}
	secret, found := c.readSecret("mesh.secret_env", c.Mesh.SecretEnv, env, list)
	prev, prevFound := c.readSecret("mesh.secret_prev_env", c.Mesh.SecretPrevEnv, env, list)
	c.Mesh.Secret, c.Mesh.SecretPrev = secret, prev
	name := c.Mesh.SecretEnv
	switch {
	case found && c.Mesh.Open:
		c.modeFault(list, "mesh.open is true and %s is set as well: remove open to have a secured mesh, or unset the variable to have an open one", name)
	case !found && !c.Mesh.Open:
		c.modeFault(list, "the mesh has no secret and is not open: set %s (or %s) to the mesh's secret (%s), or set mesh.open: true for a mesh that anyone who reaches it may join", name, name+fileSuffix, makeSecret)
	case prevFound && c.Mesh.Open:
		c.modeFault(list, "mesh.open is true and %s is set: an open mesh has no previous secret, unset the variable", c.Mesh.SecretPrevEnv)
	}
}

func (c *Config) modeFault(list *faultList, format string, args ...any) {
	f := c.Fault("mesh.open", format, args...)
	f.kind = faultMode
	list.add(f)
}

// readSecret looks in the variable, then in the file that the variable with _FILE names. Found is true as soon as
// either is set, whatever is in it: then the mesh is meant to be secured.
func (c *Config) readSecret(key, name string, env map[string]string, list *faultList) (secret Secret, found bool) {
	text, path := env[name], env[name+fileSuffix]
	var err error
	switch {
	case text == "" && path == "":
		return nil, false
	case text != "" && path != "":
		err = fmt.Errorf("%s and %s are both set: unset one", name, name+fileSuffix)
	case path != "":
		name += fileSuffix
		if text, err = c.readSecretFile(path); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if err == nil {
		if secret, err = decodeSecret(text); err != nil {
			err = fmt.Errorf("%s %w", name, err)
		}
	}
	if err != nil {
		f := c.Fault(key, "%s", err.Error())
		f.kind = faultSecret
		list.add(f)
	}
	return secret, true
}

func (c *Config) readSecretFile(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%w: name a file this user may read", err)
	}
	if !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file: name the file that holds the secret", path)
	}
	if st.Mode().Perm()&0o007 != 0 {
		c.warn("every user of this machine can read the mesh secret in %s: run 'chmod o= %s'", path, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: let this user read it", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1024))
	return string(data), err
}

// decodeSecret reads base64, padded or not. The text itself never gets into the error.
func decodeSecret(text string) (Secret, error) {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	data, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, errors.New("does not hold base64: " + makeSecret)
	}
	if len(data) != secretBytes {
		return nil, fmt.Errorf("holds %d bytes, not %d: %s", len(data), secretBytes, makeSecret)
	}
	return data, nil
}

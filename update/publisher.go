package update

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoPublisher is returned by New for a program whose build named no publisher.
var ErrNoPublisher = errors.New("this build names no publisher, so it never updates itself: install a release, or build one with PUBLISHER=github.com/OWNER/REPOSITORY/.github/workflows/release.yml")

const (
	host   = "https://github.com/"
	issuer = "https://token.actions.githubusercontent.com" // who vouches for the workflow's identity
)

// Publisher is the one workflow whose releases are believed.
type Publisher struct {
	Repository string // OWNER/REPOSITORY at GitHub
	Workflow   string // .github/workflows/FILE.yml
}

// ParsePublisher reads "github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml", as a build has it stamped in.
func ParsePublisher(text string) (Publisher, error) {
	if text == "" {
		return Publisher{}, ErrNoPublisher
	}
	const wanted = "want github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml"
	parts := strings.Split(text, "/")
	if len(text) > 300 || len(parts) != 6 || parts[0] != "github.com" || parts[3] != ".github" || parts[4] != "workflows" {
		return Publisher{}, fmt.Errorf("reading the publisher %s: %s", quoted(text), wanted)
	}
	for _, part := range []string{parts[1], parts[2], parts[5]} {
		if !isPlain(part) {
			return Publisher{}, fmt.Errorf("reading the publisher %s: %s is no name: %s", quoted(text), quoted(part), wanted)
		}
	}
	return Publisher{Repository: parts[1] + "/" + parts[2], Workflow: strings.Join(parts[3:], "/")}, nil
}

// String is what ParsePublisher reads.
func (p Publisher) String() string { return "github.com/" + p.Repository + "/" + p.Workflow }

// Registry is where the release workflow puts its releases, unless a configuration says otherwise.
func (p Publisher) Registry() string { return "ghcr.io/" + strings.ToLower(p.Repository) }

func (p Publisher) repositoryURL() string     { return host + p.Repository }
func (p Publisher) ref(version string) string { return "refs/tags/" + version }

// signer is the identity in the certificate: this file of this repository, as it was at this version's tag.
func (p Publisher) signer(version string) string {
	return p.repositoryURL() + "/" + p.Workflow + "@" + p.ref(version)
}

// isPlain keeps to the characters of GitHub's names, so that a name cannot become another part of an identity.
func isPlain(name string) bool {
	if name == "" || name == "." || name == ".." {
		return false
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return false
		}
	}
	return true
}

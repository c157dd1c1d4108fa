package update

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

const maxVersion = 64 // bytes

// CheckVersion says whether v is a version as releases have them: "v1.2.3" or "v1.2.3-rc.1".
func CheckVersion(v string) error {
	if len(v) > maxVersion || !semver.IsValid(v) || semver.Canonical(v) != v {
		return fmt.Errorf("%s is no version: write it as v1.2.3", quoted(v))
	}
	return nil
}

// isFinal is what a search for the newest takes: no release candidate.
func isFinal(v string) bool { return CheckVersion(v) == nil && semver.Prerelease(v) == "" }

// newer of two versions; "" and a word such as "dev" are older than any.
func newer(a, b string) string {
	if semver.Compare(a, b) > 0 {
		return a
	}
	return b
}

// quoted is foreign text in a message: short, and without what would drive a terminal.
func quoted(text string) string {
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return fmt.Sprintf("%q", strings.ToValidUTF8(text, "?"))
}

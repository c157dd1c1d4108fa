package update

import "time"

// Report is what was examined and how each check went, good or not; it is the JSON of 'release verify --json'.
type Report struct {
	OK        bool    `json:"ok"`
	What      string  `json:"what"`    // as it was named: a reference, a file
	Digest    string  `json:"digest"`  // sha256:…, of the index or of the file
	Version   string  `json:"version"` // the one claimed
	Publisher string  `json:"publisher"`
	Commit    string  `json:"commit"` // what it was built from, by the proof
	Signed    string  `json:"signed"` // when, by the log or the timestamp authority; RFC 3339
	TrustRoot string  `json:"trust_root"`
	Bundles   int     `json:"bundles"` // proofs that were found; the checks are those of the one that held, or came furthest
	Checks    []Check `json:"checks"`
}

// The states of a check.
const (
	Pass = "pass"
	Fail = "fail"
	Skip = "skip" // not reached
)

// Check is one of them.
type Check struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Text  string `json:"text"` // what was checked, and against what
	Cause string `json:"cause,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

func (r *Report) stamp(p *proof) {
	r.OK, r.Commit, r.Signed = true, p.commit, p.signed.UTC().Format(time.RFC3339)
}

// failed is the first check that did not pass; the zero one if all did.
func failed(checks []Check) Check {
	for _, c := range checks {
		if c.State == Fail {
			return c
		}
	}
	return Check{}
}

func passed(checks []Check) (n int) {
	for _, c := range checks {
		if c.State == Pass {
			n++
		}
	}
	return n
}

package update

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

const (
	statementType  = "https://in-toto.io/Statement/v1"
	provenanceType = "https://slsa.dev/provenance/v1"
	buildType      = "https://actions.github.io/buildtypes/workflow/v1"
	maxSubjects    = 1024
)

// predicate is as much of SLSA's provenance v1 as we look at, as GitHub's action writes it.
type predicate struct {
	BuildDefinition struct {
		BuildType          string `json:"buildType"`
		ExternalParameters struct {
			Workflow struct {
				Ref        string `json:"ref"`
				Repository string `json:"repository"`
				Path       string `json:"path"`
			} `json:"workflow"`
		} `json:"externalParameters"`
		ResolvedDependencies []struct {
			URI    string            `json:"uri"`
			Digest map[string]string `json:"digest"`
		} `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// provenance checks what the library leaves alone: that the statement is one about how this was built, and that it
// agrees with the certificate.
func (e *examination) provenance() error {
	stmt := e.stmt.Statement
	switch {
	case stmt == nil:
		return errors.New("it is a plain signature, not a provenance")
	case stmt.GetType() != statementType:
		return fmt.Errorf("the statement is of type %s, not %s", quoted(stmt.GetType()), statementType)
	case stmt.GetPredicateType() != provenanceType:
		return fmt.Errorf("the predicate is of type %s, not %s", quoted(stmt.GetPredicateType()), provenanceType)
	case len(stmt.GetSubject()) > maxSubjects:
		return fmt.Errorf("it names more than %d subjects", maxSubjects)
	}
	text, err := stmt.GetPredicate().MarshalJSON()
	if err != nil {
		return fmt.Errorf("reading the predicate: %w", err)
	}
	var p predicate
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("reading the predicate: %w", err)
	}
	return e.agrees(p)
}

func (e *examination) agrees(p predicate) error {
	workflow, ref := p.BuildDefinition.ExternalParameters.Workflow, e.publisher.ref(e.version)
	for _, c := range []struct{ what, want, got string }{
		{"build type", buildType, p.BuildDefinition.BuildType},
		{"workflow's repository", e.publisher.repositoryURL(), workflow.Repository},
		{"workflow's ref", ref, workflow.Ref},
		{"workflow's path", e.publisher.Workflow, workflow.Path},
		{"builder", e.publisher.signer(e.version), p.RunDetails.Builder.ID},
	} {
		if c.got != c.want {
			return fmt.Errorf("the %s is %s, not %s", c.what, quoted(c.got), c.want)
		}
	}
	sources := p.BuildDefinition.ResolvedDependencies
	if len(sources) != 1 || sources[0].URI != "git+"+e.publisher.repositoryURL()+"@"+ref {
		return fmt.Errorf("it names another source than %s at %s", e.publisher.repositoryURL(), ref)
	}
	commit := sources[0].Digest["gitCommit"]
	if raw, err := hex.DecodeString(commit); err != nil || len(raw) != 20 && len(raw) != 32 {
		return fmt.Errorf("%s is no commit", quoted(commit))
	}
	if certified := e.stmt.Signature.Certificate.SourceRepositoryDigest; certified != commit {
		return fmt.Errorf("it names commit %s, the certificate %s", commit, quoted(certified))
	}
	return nil
}

// proved is what a statement that passed says.
func (e *examination) proved() *proof {
	p := &proof{commit: e.stmt.Signature.Certificate.SourceRepositoryDigest, subjects: map[string]string{}}
	for _, t := range e.stmt.VerifiedTimestamps {
		if p.signed.IsZero() || t.Timestamp.Before(p.signed) {
			p.signed = t.Timestamp
		}
	}
	for _, s := range e.stmt.Statement.GetSubject() {
		p.subjects[s.GetName()] = s.GetDigest()["sha256"]
	}
	return p
}

// printable keeps what a stranger wrote from driving the terminal, and from filling it.
func printable(text string) string {
	const most = 600
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
}

package updatetest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// Statement is an in-toto statement as GitHub's action writes one. Change what a test wants different before JSON.
type Statement struct {
	Type          string
	PredicateType string
	BuildType     string
	Repository    string // https://github.com/OWNER/REPOSITORY
	Ref           string
	Path          string // of the workflow
	Builder       string
	Commit        string
	Subjects      map[string]string // name → SHA-256 in hex
}

// Provenance is what an honest run says it made.
func Provenance(by Identity, subjects map[string]string) Statement {
	return Statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		BuildType:  "https://actions.github.io/buildtypes/workflow/v1",
		Repository: by.Repository, Ref: by.Ref, Path: ".github/workflows/release.yml", Builder: by.Signer, Commit: by.Commit, Subjects: subjects,
	}
}

// JSON is what is signed.
func (s Statement) JSON(t testing.TB) []byte {
	t.Helper()
	type object = map[string]any
	var subjects []any
	for _, name := range slices.Sorted(maps.Keys(s.Subjects)) {
		subjects = append(subjects, object{"name": name, "digest": object{"sha256": s.Subjects[name]}})
	}
	text, err := json.Marshal(object{
		"_type": s.Type, "predicateType": s.PredicateType, "subject": subjects,
		"predicate": object{
			"buildDefinition": object{
				"buildType":            s.BuildType,
				"externalParameters":   object{"workflow": object{"ref": s.Ref, "repository": s.Repository, "path": s.Path}},
				"internalParameters":   object{"github": object{"event_name": "push", "runner_environment": "github-hosted"}},
				"resolvedDependencies": []any{object{"uri": "git+" + s.Repository + "@" + s.Ref, "digest": object{"gitCommit": s.Commit}}},
			},
			"runDetails": object{"builder": object{"id": s.Builder}, "metadata": object{"invocationId": s.Repository + "/actions/runs/1/attempts/1"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

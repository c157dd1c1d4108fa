package update_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"viiwork/update"
	"viiwork/update/updatetest"
)

func TestGoodDownloadIsAccepted(t *testing.T) {
	w := newWorld(t)
	r, err := w.download(w.sig.Sign(signing(sum(content))), nil)
	wantAccepted(t, r, err)
}

func TestGoodReleaseIsAccepted(t *testing.T) {
	w := newWorld(t)
	index := w.publish(version)
	found, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	wantAccepted(t, r, err)
	if found.Digest() != "sha256:"+index || found.Version() != version {
		t.Errorf("found %s %s, want %s", found.Version(), found.Digest(), index)
	}
}

func TestLongExpiredCertificateWithTimelyStampIsAccepted(t *testing.T) {
	w := newWorld(t)
	s := signing(sum(content))
	s.At = time.Now().AddDate(-2, 0, 0)
	r, err := w.download(w.sig.Sign(s), nil)
	wantAccepted(t, r, err)
}

func TestChangedDownloadIsRefused(t *testing.T) {
	w := newWorld(t)
	r, err := w.download(w.sig.Sign(signing(sum(content+" changed"))), nil)
	wantRefused(t, r, err, "digest", "")
}

// another refuses what is good but for who signed it.
func another(t *testing.T, cause string, change func(*updatetest.Identity)) {
	t.Helper()
	w := newWorld(t)
	s := signing(sum(content))
	change(&s.Identity)
	r, err := w.download(w.sig.Sign(s), nil)
	wantRefused(t, r, err, "identity", cause)
}

func TestOtherWorkflowIsRefused(t *testing.T) {
	another(t, "signer (SAN)", func(id *updatetest.Identity) {
		id.Signer = strings.Replace(id.Signer, "release.yml", "test.yml", 1)
	})
}

func TestRepositoryWithLongerNameIsRefused(t *testing.T) {
	another(t, "signer (SAN)", func(id *updatetest.Identity) {
		*id = updatetest.Run(repository+"-evil", version, commit)
	})
}

func TestBranchInsteadOfTagIsRefused(t *testing.T) {
	another(t, "signer (SAN)", func(id *updatetest.Identity) {
		id.Signer, id.Ref = strings.Replace(id.Signer, "tags/"+version, "heads/main", 1), "refs/heads/main"
	})
}

func TestVersionReplayedAsNewerIsRefused(t *testing.T) {
	w := newWorld(t)
	dir, index := w.layout("v1.2.4", programs(version)) // the old programs under a new name
	w.push(dir, "v1.2.4", w.prove(version, index))
	_, r, err := w.updater(version, nil).Find(t.Context(), "v1.2.4", false)
	wantRefused(t, r, err, "identity", "signer (SAN)")
}

func TestVersionThatContinuesIsRefused(t *testing.T) {
	another(t, "signer (SAN)", func(id *updatetest.Identity) {
		*id = updatetest.Run(repository, version+"0", commit)
	})
}

func TestOtherIssuerIsRefused(t *testing.T) {
	another(t, "issuer", func(id *updatetest.Identity) { id.Issuer = "https://accounts.example" })
}

func TestSelfHostedRunnerIsRefused(t *testing.T) {
	another(t, "runner", func(id *updatetest.Identity) { id.Runner = "self-hosted" })
}

func TestOtherTriggerIsRefused(t *testing.T) {
	another(t, "trigger", func(id *updatetest.Identity) { id.Trigger = "pull_request_target" })
}

func TestCallerInOtherRepositoryIsRefused(t *testing.T) {
	another(t, "repository", func(id *updatetest.Identity) { id.Repository = "https://github.com/other/viiwork" })
}

func TestMissingExtensionIsRefused(t *testing.T) {
	another(t, "trigger", func(id *updatetest.Identity) { id.Trigger = "" })
}

func TestProofInNoLogIsRefused(t *testing.T) {
	w := newWorld(t)
	s := signing(sum(content))
	s.NoLog = true
	r, err := w.download(w.sig.Sign(s), nil)
	wantRefused(t, r, err, "log", "")
	if strings.Contains(fix(r), "--trust-root") {
		t.Errorf("a stale trust root is blamed where there is no entry at all: %s", fix(r))
	}
}

func TestProofWithoutTimeIsRefused(t *testing.T) {
	w := newWorld(t)
	s := signing(sum(content))
	s.NoTime = true
	r, err := w.download(w.sig.Sign(s), nil)
	wantRefused(t, r, err, "time", "")
}

func TestStampAfterCertificateExpiredIsRefused(t *testing.T) {
	w := newWorld(t)
	s := signing(sum(content))
	s.At = time.Now().Add(-time.Hour)
	s.Stamped = time.Now()
	r, err := w.download(w.sig.Sign(s), nil)
	wantRefused(t, r, err, "certificate", "")
}

func TestAuthorityWhoseTimeWasOverIsRefused(t *testing.T) {
	w := newWorld(t)
	bundle := w.sig.Sign(signing(sum(content)))
	w.sig.Until = time.Now().Add(-time.Hour)
	r, err := w.download(bundle, nil)
	wantRefused(t, r, err, "certificate", "")
}

func TestOtherTrustRootIsRefusedAndCalledStale(t *testing.T) {
	w := newWorld(t)
	r, err := w.download(w.sig.Sign(signing(sum(content))), updatetest.New(t).Root())
	wantRefused(t, r, err, "log", "does not know the log")
	if !strings.Contains(fix(r), "may be stale") || !strings.Contains(err.Error(), "does not know the log") {
		t.Errorf("nothing says that the trust root may be stale: %v: %s", err, fix(r))
	}
}

func fix(r update.Report) string {
	for _, c := range r.Checks {
		if c.State == update.Fail {
			return c.Fix
		}
	}
	return ""
}

func TestCertificateInNoLogIsRefused(t *testing.T) {
	w := newWorld(t)
	s := signing(sum(content))
	s.NoSCT = true
	r, err := w.download(w.sig.Sign(s), nil)
	wantRefused(t, r, err, "sct", "")
}

func TestLogEntryOfOtherArtifactIsRefused(t *testing.T) {
	w := newWorld(t)
	other := updatetest.Edit(t, w.sig.Sign(signing(sum("other"))), func(map[string]any) {})
	var entries any
	updatetest.Edit(t, other, func(b map[string]any) { entries = b["verificationMaterial"].(map[string]any)["tlogEntries"] })
	mixed := updatetest.Edit(t, w.sig.Sign(signing(sum(content))), func(b map[string]any) {
		b["verificationMaterial"].(map[string]any)["tlogEntries"] = entries
	})
	r, err := w.download(mixed, nil)
	wantRefused(t, r, err, "log", "inclusion")
}

func TestSwappedSignatureIsRefused(t *testing.T) {
	w := newWorld(t)
	var signatures any
	updatetest.Edit(t, w.sig.Sign(signing(sum("other"))), func(b map[string]any) { signatures = b["dsseEnvelope"].(map[string]any)["signatures"] })
	mixed := updatetest.Edit(t, w.sig.Sign(signing(sum(content))), func(b map[string]any) {
		b["dsseEnvelope"].(map[string]any)["signatures"] = signatures
	})
	r, err := w.download(mixed, nil)
	wantRefused(t, r, err, "log", "inclusion")
}

func TestFormatRelabelledAsOldIsRefused(t *testing.T) {
	w := newWorld(t)
	old := updatetest.Edit(t, w.sig.Sign(signing(sum(content))), func(b map[string]any) {
		b["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1"
	})
	r, err := w.download(old, nil)
	wantRefused(t, r, err, "bundle", "")
}

func TestPlainSignatureInPlaceOfProvenanceIsRefused(t *testing.T) {
	w := newWorld(t)
	s := signing("")
	s.Plain = []byte(content)
	r, err := w.download(w.sig.Sign(s), nil)
	wantRefused(t, r, err, "provenance", "plain signature")
}

func TestProofOfOtherIndexIsRefused(t *testing.T) {
	w := newWorld(t)
	dir, _ := w.layout(version, programs(version))
	w.push(dir, version, w.prove(version, sum("another index")))
	_, r, err := w.updater("v1.0.0", nil).Find(t.Context(), version, false)
	wantRefused(t, r, err, "digest", "")
}

func TestEditedStatementIsRefused(t *testing.T) {
	w := newWorld(t)
	s := signing(sum("other"))
	edited := updatetest.Edit(t, w.sig.Sign(s), func(b map[string]any) {
		b["dsseEnvelope"].(map[string]any)["payload"] = base64.StdEncoding.EncodeToString(signing(sum(content)).Statement)
	})
	r, err := w.download(edited, nil)
	wantRefused(t, r, err, "log", "inclusion")
}

// TestStatementThatSaysSomethingElseIsRefused: what the library leaves to us. All of these are signed by the right run.
func TestStatementThatSaysSomethingElseIsRefused(t *testing.T) {
	by := updatetest.Run(repository, version, commit)
	for name, change := range map[string]func(*updatetest.Statement){
		"type":           func(s *updatetest.Statement) { s.Type = "https://in-toto.io/Statement/v0.1" },
		"predicate type": func(s *updatetest.Statement) { s.PredicateType = "https://slsa.dev/provenance/v0.2" },
		"build type":     func(s *updatetest.Statement) { s.BuildType = "https://example.org/by-hand" },
		"repository":     func(s *updatetest.Statement) { s.Repository += "-evil" },
		"ref":            func(s *updatetest.Statement) { s.Ref = "refs/heads/main" },
		"path":           func(s *updatetest.Statement) { s.Path = ".github/workflows/test.yml" },
		"builder":        func(s *updatetest.Statement) { s.Builder = strings.Replace(s.Builder, version, "v9.9.9", 1) },
		"commit":         func(s *updatetest.Statement) { s.Commit = strings.Repeat("f", 40) },
		"no commit":      func(s *updatetest.Statement) { s.Commit = "main" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			said := updatetest.Provenance(by, map[string]string{"viiwork": sum(content)})
			change(&said)
			r, err := w.download(w.sig.Sign(updatetest.Signing{Identity: by, Statement: said.JSON(t)}), nil)
			wantRefused(t, r, err, "provenance", "")
		})
	}
}

func TestRubbishIsNoProof(t *testing.T) {
	w := newWorld(t)
	for name, bundle := range map[string]string{
		"nothing": "", "no JSON": "{", "empty": "{}", "null": "null",
		"no content": `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}`,
		"large":      `{"a":"` + strings.Repeat("a", 2<<20) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := w.download([]byte(bundle), nil); err == nil || r.OK {
				t.Fatalf("accepted: %+v", r)
			}
		})
	}
}

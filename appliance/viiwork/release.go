package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"viiwork/appliance/setup"
	"viiwork/update"
)

const releaseHelp = `A release is one OCI index, proved by an attestation of the publisher's workflow. 'verify' checks one, or a plain download, and
explains each check; 'reproduce' builds it again from the source and compares; 'build' and 'publish' make one. None of them
needs a configuration or a running node.`

func (c *cli) releaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release",
		Short: "releases: verify, reproduce, build, publish",
		Long:  releaseHelp,
		Args:  cobra.ArbitraryArgs,
		RunE:  needVerb,
	}
	cmd.AddCommand(c.releaseVerifyCommand(), c.releaseReproduceCommand(), c.releaseBuildCommand(), c.releasePublishCommand())
	return cmd
}

// whose says whom to believe, and by which keys.
type whose struct {
	publisher, trustRoot string
	offline              bool
}

func (w *whose) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.publisher, "publisher", publisher, "believe this `workflow`: github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml")
	cmd.Flags().StringVar(&w.trustRoot, "trust-root", "", "take the signing services' keys from this `trusted_root.json`")
	cmd.Flags().BoolVar(&w.offline, "offline", false, "do not ask the network for newer keys")
}

// verifier refreshes the keys where something is fetched anyway; without them the program's own do.
func (c *cli) verifier(ctx context.Context, w whose, online bool) (*update.Verifier, error) {
	p, err := update.ParsePublisher(w.publisher)
	if errors.Is(err, update.ErrNoPublisher) {
		return nil, usageError("this build names no publisher: say --publisher github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml")
	}
	if err != nil {
		return nil, err
	}
	cfg, err := trustConfig(w.trustRoot)
	if err != nil {
		return nil, err
	}
	trust, err := update.LoadTrust(cfg)
	if err != nil {
		return nil, err
	}
	if online && !w.offline && w.trustRoot == "" {
		if err := trust.Refresh(ctx); err != nil {
			c.note("warning: %s", printable(err.Error()))
		}
	}
	return update.NewVerifier(p, trust), nil
}

// trustConfig takes the keys from a file, or the program's own.
func trustConfig(file string) (update.TrustConfig, error) {
	var cfg update.TrustConfig
	if file == "" {
		return cfg, nil
	}
	var err error
	if cfg.Root, err = os.ReadFile(file); err != nil {
		return cfg, fmt.Errorf("reading the trust root: %w", err)
	}
	return cfg, nil
}

// verifyFlags are what 'release verify' is told beside what to verify.
type verifyFlags struct {
	whose
	version, bundle string
	asJSON          bool
}

func (c *cli) releaseVerifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify PATH|REF",
		Short: "check who made a release or a download, from what, and explain each check; exit 1 if one fails",
		Long: `PATH is a program or an archive with its *.sigstore.json beside it, or a directory that holds releases. REF is REPOSITORY:VERSION
or REPOSITORY@sha256:DIGEST. The version that it must be comes from --version, from REF or from the file's name.`,
		Args: exactly(1, "it takes one path or reference"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			report, err := c.verifyRelease(ctx, args[0], f)
			return c.tellReport(report, f.asJSON, err)
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.version, "version", "", "what it must be a `version` of")
	cmd.Flags().StringVar(&f.bundle, "bundle", "", "the proof, a `file` as *.sigstore.json")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

var versionInName = regexp.MustCompile(`v[0-9]+\.[0-9]+\.[0-9]+(-rc\.[0-9]+)?`)

// verifyRelease finds out what was named: what exists as a path is one.
func (c *cli) verifyRelease(ctx context.Context, what string, f verifyFlags) (update.Report, error) {
	stat, err := os.Stat(what)
	if err == nil && !stat.IsDir() {
		return c.verifyFile(ctx, what, f)
	}
	if f.bundle != "" {
		return update.Report{}, usageError("--bundle goes with a file: a release's proof lies in its registry or directory")
	}
	place, name := what, f.version
	if err != nil {
		place, name = splitReference(what, f.version)
	}
	switch {
	case name == "" && err != nil:
		return update.Report{}, usageError("%s is no file or directory here, and as a repository it names no version: mend the path or say --version", what)
	case name == "":
		return update.Report{}, usageError("%s may hold many: say --version", what)
	}
	v, err := c.verifier(ctx, f.whose, err != nil)
	if err != nil {
		return update.Report{}, err
	}
	source, err := update.OpenSource(place, nil)
	if err != nil {
		return update.Report{}, err
	}
	_, report, err := v.Release(ctx, source, name)
	if err == nil && f.version != "" && report.Version != f.version {
		report.OK, err = false, fmt.Errorf("%s is %s, not %s", what, report.Version, f.version)
	}
	return report, err
}

// verifyFile verifies a plain download.
func (c *cli) verifyFile(ctx context.Context, path string, f verifyFlags) (update.Report, error) {
	if f.version == "" {
		f.version = versionInName.FindString(filepath.Base(path))
	}
	if f.version == "" {
		return update.Report{}, usageError("the name of %s holds no version: say --version", path)
	}
	v, err := c.verifier(ctx, f.whose, false)
	if err != nil {
		return update.Report{}, err
	}
	return v.File(path, f.bundle, f.version)
}

// splitReference cuts REPOSITORY@sha256:… and REPOSITORY:VERSION; a colon before the last slash belongs to a port.
func splitReference(ref, version string) (repository, name string) {
	if repository, digest, ok := strings.Cut(ref, "@"); ok {
		return repository, digest
	}
	if at := strings.LastIndex(ref, ":"); at > strings.LastIndex(ref, "/") {
		return ref[:at], ref[at+1:]
	}
	return ref, version
}

// tellReport prints what was checked, and fails with err. Where nothing was examined there is the error alone.
func (c *cli) tellReport(r update.Report, asJSON bool, err error) error {
	switch {
	case asJSON && len(r.Checks) > 0:
		if err := c.printJSON(r); err != nil {
			return err
		}
	case len(r.Checks) > 0:
		if err := c.print(c.drawReport(r)); err != nil {
			return err
		}
	}
	return err
}

func (c *cli) drawReport(r update.Report) *bytes.Buffer {
	var checks []setup.Check
	for _, check := range r.Checks {
		state := map[string]setup.State{update.Pass: setup.OK, update.Fail: setup.Fail, update.Skip: setup.Skip}[check.State]
		checks = append(checks, setup.Check{ID: check.ID, State: state, Text: check.Text, Cause: check.Cause, Fix: check.Fix})
	}
	out := drawChecks(checks, c.quiet, c.bold())
	if !r.OK {
		return out
	}
	what := strings.TrimSuffix(r.What, " "+r.Version)
	fmt.Fprintf(out, "\n%s is %s of %s\n", printable(what), r.Version, printable(r.Publisher))
	for _, fact := range [][2]string{{"digest", r.Digest}, {"commit", r.Commit}, {"signed", r.Signed}, {"keys", r.TrustRoot}} {
		fmt.Fprintf(out, "%-7s %s\n", fact[0], printable(fact[1]))
	}
	return out
}

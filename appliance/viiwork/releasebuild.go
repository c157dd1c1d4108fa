package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"viiwork/update"
	"viiwork/update/build"
)

func (c *cli) releaseBuildCommand() *cobra.Command {
	var o build.Options
	cmd := &cobra.Command{
		Use:   "build VERSION",
		Short: "build a release from a clean checkout: the index, archives, SHA256SUMS, the list of parts",
		Args:  exactly(1, "it takes one version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Version, o.Progress, o.Said = args[0], c.Err, c.noteAct
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			record, err := build.Make(ctx, o)
			if err != nil {
				return err
			}
			out := new(bytes.Buffer)
			fmt.Fprintf(out, "%s of commit %s, by %s\nindex %s\n", record.Version, record.Commit, record.Toolchain, record.Index)
			if record.Publisher == "" {
				c.note("it names no publisher (--publisher), so it will never update itself")
			}
			return c.print(out)
		},
	}
	cmd.Flags().StringVar(&o.Source, "source", ".", "the checkout, a `directory`")
	cmd.Flags().StringVar(&o.Out, "out", "", "where to, an empty `directory` (default: dist/VERSION in the checkout)")
	cmd.Flags().StringVar(&o.Publisher, "publisher", "", "the `workflow` whose updates it will believe: github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml")
	return cmd
}

func (c *cli) noteAct(act string) { c.note("%s", act) }

func (c *cli) releasePublishCommand() *cobra.Command {
	var bundles []string
	cmd := &cobra.Command{
		Use:   "publish DIR VERSION REPOSITORY",
		Short: "put a built release and its proofs into a registry, by the keys that 'docker login' left",
		Args:  exactly(3, "it takes a directory, a version and a repository"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := update.Publication{Dir: args[0], Version: args[1], Repository: args[2]}
			for _, name := range bundles {
				text, err := os.ReadFile(name)
				if err != nil {
					return fmt.Errorf("reading the proof: %w", err)
				}
				p.Bundles = append(p.Bundles, text)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			digest, err := update.Publish(ctx, p)
			if err != nil {
				return err
			}
			return c.print(bytes.NewBufferString(p.Repository + "@" + digest + "\n"))
		},
	}
	cmd.Flags().StringArrayVar(&bundles, "bundle", nil, "a proof to attach, a `file`; may be given several times")
	return cmd
}

// reproduceFlags are what 'release reproduce' is told beside the version.
type reproduceFlags struct {
	whose
	from, source     string
	unproved, asJSON bool
}

func (c *cli) releaseReproduceCommand() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce VERSION",
		Short: "build a published release again and compare, level by level; exit 1 if it differs",
		Long: `The checkout must be at the commit that the release's proof names. For each platform the innermost level that differs is named:
the program, the archive, the compressed archive, the manifest. With --unproved the release is compared whoever made it.`,
		Args: exactly(1, "it takes one version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return c.reproduce(ctx, args[0], f)
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.from, "from", "", "where it was published, a `directory or repository` (default: the publisher's registry)")
	cmd.Flags().StringVar(&f.source, "source", ".", "the checkout, a `directory`")
	cmd.Flags().BoolVar(&f.unproved, "unproved", false, "do not ask for a proof")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

// reproduction is the JSON of 'release reproduce --json'.
type reproduction struct {
	Equal       bool               `json:"equal"`
	Published   build.Record       `json:"published"`
	Rebuilt     build.Record       `json:"rebuilt"`
	Differences []build.Difference `json:"differences"`
}

func (c *cli) reproduce(ctx context.Context, version string, f reproduceFlags) error {
	published, err := c.published(ctx, version, f)
	if err != nil {
		return err
	}
	commit, _, err := build.Checkout(ctx, f.source)
	if err != nil {
		return err
	}
	if published.Commit != "" && published.Commit != commit {
		return fmt.Errorf("%s was built from commit %s, but %s is at %s: run 'git checkout %s' there", version, published.Commit, f.source, commit, published.Commit)
	}
	dir, err := os.MkdirTemp("", "viiwork-reproduce-")
	if err != nil {
		return fmt.Errorf("building again: %w", err)
	}
	defer os.RemoveAll(dir)
	rebuilt, err := build.Make(ctx, build.Options{
		Source: f.source, Out: filepath.Join(dir, "out"), Version: version, Publisher: published.Publisher, Progress: c.Err, Said: c.noteAct,
	})
	if err != nil {
		return err
	}
	r := reproduction{Published: published, Rebuilt: rebuilt, Differences: build.Compare(published, rebuilt)}
	r.Equal = len(r.Differences) == 0
	if f.asJSON {
		err = c.printJSON(r)
	} else {
		err = c.print(drawReproduction(r))
	}
	if err == nil && !r.Equal {
		err = errSaid
	}
	return err
}

// published takes the digests of what was published, after its proof was checked.
func (c *cli) published(ctx context.Context, version string, f reproduceFlags) (build.Record, error) {
	r := build.Record{Version: version, Platforms: map[string]build.Levels{}}
	if f.from == "" {
		p, err := update.ParsePublisher(f.publisher)
		if err != nil {
			return r, usageError("say --from DIRECTORY or --publisher: this build does not know where releases are")
		}
		f.from = p.Registry()
	}
	source, err := update.OpenSource(f.from, nil)
	if err != nil {
		return r, err
	}
	found, err := update.Look(ctx, source, version)
	if err == nil && !f.unproved {
		var proof *update.Verified
		if proof, err = c.proved(ctx, source, version, f.whose); err == nil {
			found = &proof.Found
			r.Commit, _ = proof.Commit()
		}
	}
	if err != nil {
		return r, err
	}
	r.Index, r.Publisher = found.Digest(), found.Publisher()
	for _, platform := range found.Platforms() {
		levels, err := found.Levels(ctx, platform)
		if err != nil {
			return r, err
		}
		r.Platforms[platform] = build.Levels(levels)
	}
	return r, nil
}

// proved prints what was checked of a release whose proof does not hold.
func (c *cli) proved(ctx context.Context, s *update.Source, version string, w whose) (*update.Verified, error) {
	v, err := c.verifier(ctx, w, true)
	if err != nil {
		return nil, err
	}
	found, report, err := v.Release(ctx, s, version)
	if err != nil {
		return nil, c.tellReport(report, false, err)
	}
	return found, nil
}

func drawReproduction(r reproduction) *bytes.Buffer {
	out := new(bytes.Buffer)
	if r.Equal {
		fmt.Fprintf(out, "equal: %s is what commit %s gives\nindex %s, of %s\n", r.Rebuilt.Version, r.Rebuilt.Commit, r.Rebuilt.Index, count(len(r.Rebuilt.Platforms), "platform"))
		return out
	}
	fmt.Fprintf(out, "%s is not what commit %s gives:\n", r.Rebuilt.Version, r.Rebuilt.Commit)
	for _, d := range r.Differences {
		fmt.Fprintln(out, printable(d.String()))
	}
	return out
}

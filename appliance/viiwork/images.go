package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"viiwork/appliance/config"
	"viiwork/appliance/modelcopy"
	"viiwork/appliance/status"
	"viiwork/engine/docker"
	"viiwork/images"
	"viiwork/images/papers"
)

const imagesHelp = `Engines run in containers. Which image a model uses stands in its llamacpp.image: a short name of the list, or a reference.

'pull' fetches an image by digest, checks what came against what the registry says that digest is, and remembers it: engines
are started from that very image. A tag is trusted the first time; when it has moved since, it is refused until you name the
new digest. A member of the mesh that has fetched the image before is asked for it first, if this machine's node runs: what
comes is checked against the same digest. 'build' makes an image here from its recipe.`

func (c *cli) imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "images that engines run in: ls, pull, build",
		Long:  imagesHelp,
		Args:  cobra.ArbitraryArgs,
		RunE:  needVerb,
	}
	cmd.AddCommand(c.imagesListCommand(), c.imagesPullCommand(), c.imagesBuildCommand())
	return cmd
}

// withStock gives act the images of the configured node, and a ctx that Ctrl-C ends. The mesh's members are asked for images
// by way of the node, if they are to be.
func (c *cli) withStock(ctx context.Context, askMembers bool, act func(context.Context, *images.Stock) error) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	book, err := images.OpenBook(images.BookFile(cfg.Node.StateDir))
	if err != nil {
		return err
	}
	runner := docker.New(dockerOf(cfg))
	defer runner.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	with := images.Config{Docker: runner, Book: book, Papers: papers.FolderIn(cfg.Node.StateDir), Loader: runner, Room: runner.Free}
	if askMembers {
		with.Members = imageMembers{c.nodeOf(cfg)}
	}
	err = act(ctx, images.New(with))
	if err != nil && ctx.Err() != nil {
		return errors.New("given up, as asked: nothing half-done is left")
	}
	if errors.Is(err, images.ErrMoved) {
		return coded{exitRefused, err}
	}
	return err
}

func dockerOf(cfg *config.Config) docker.Config {
	return docker.Config{Node: cfg.Node.Name, StateDir: cfg.Node.StateDir, UID: os.Getuid(), GID: os.Getgid()}
}

func (c *cli) imagesListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "list the images that have a short name or were fetched, and what is known of each on this machine",
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStock(cmd.Context(), false, func(ctx context.Context, stock *images.Stock) error {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				list, err := stock.List(ctx)
				if err != nil {
					c.note("%s", printable(err.Error()))
				}
				if asJSON {
					return c.printJSON(listedImages(list))
				}
				return c.print(drawImages(list, c.bold()))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listedImage is one of 'images ls --json'.
type listedImage struct {
	Name      string   `json:"name"` // "" = it has no short name
	Reference string   `json:"reference"`
	Digest    string   `json:"digest"` // "" = none is known
	ID        string   `json:"id"`     // Docker's, of the one that was checked or made; "" = none was
	State     string   `json:"state"`
	At        string   `json:"at"` // "" = never
	GPUs      []string `json:"gpus"`
	Build     string   `json:"build"`
	Licence   string   `json:"licence"`
	Verified  []string `json:"verified"` // hardware it was run on by this project
	Note      string   `json:"note"`
}

func listedImages(list []images.Listed) []listedImage {
	all := []listedImage{}
	for _, l := range list {
		out := listedImage{
			Name: l.Name, Reference: l.Reference, Digest: l.Digest, ID: l.ID, State: string(l.State),
			GPUs: append([]string{}, l.GPUs...), Build: l.Build, Licence: l.Licence, Verified: append([]string{}, l.Verified...), Note: l.Note,
		}
		if !l.At.IsZero() {
			out.At = l.At.UTC().Format(time.RFC3339)
		}
		all = append(all, out)
	}
	return all
}

func drawImages(list []images.Listed, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	t := table{bold: bold, head: []string{"NAME", "REFERENCE", "STATE", "DIGEST", "CARDS", "RUN BY US ON", "NOTE"}}
	for _, l := range list {
		digest := l.Digest
		if algorithm, hex, ok := strings.Cut(digest, ":"); ok && len(hex) > 12 {
			digest = algorithm + ":" + hex[:12] + "…"
		}
		verified := strings.Join(l.Verified, ", ")
		if verified == "" && l.Name != "" {
			verified = "nothing"
		}
		t.add(orDash(l.Name), l.Reference, string(l.State), orDash(digest), orDash(strings.Join(l.GPUs, ", ")), orDash(verified), orDash(l.Note))
	}
	t.draw(out)
	return out
}

// fromRegistry is the source that is not the mesh.
const fromRegistry = "registry"

func (c *cli) imagesPullCommand() *cobra.Command {
	var digest, source string
	cmd := &cobra.Command{
		Use:   "pull IMAGE",
		Short: "fetch an image by its digest, from a member of the mesh or its registry, and check it; exit 4 if its tag has moved",
		Args:  exactly(1, "it takes one image, as 'viiwork images ls' lists them or a reference"),

		ValidArgsFunction: cobra.FixedCompletions(shortNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			if digest != "" && !papers.IsDigest(digest) {
				return usageError("--digest: %q is no digest: it looks like sha256: and 64 hexadecimal digits", digest)
			}
			if source != "" && source != fromRegistry {
				return usageError("--source: it takes %q, or nothing: then members of the mesh are asked first", fromRegistry)
			}
			order := images.Order{Image: args[0], Digest: digest}
			if err := order.Check(); err != nil {
				return coded{exitUsage, err}
			}
			return c.withStock(cmd.Context(), source == "", func(ctx context.Context, stock *images.Stock) error {
				bar := newPullBar(c, "")
				order.Tell = func(done, total int64) {
					bar.at(status.Pull{File: args[0], State: modelcopy.StateCopying, Bytes: done, Size: total})
				}
				order.Note = func(text string) { bar.clear(); c.note("%s", printable(text)) }
				held, err := stock.Pull(ctx, order)
				bar.clear()
				if err != nil {
					return err
				}
				fmt.Fprintf(c.Out, "%s\n", pinnedForm(held))
				c.note("checked and remembered; engines that use it start from it after a reload. To hold other machines to the same image, write this line as their llamacpp.image")
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "with `registry`: ask no member of the mesh")
	cmd.Flags().StringVar(&digest, "digest", "", "fetch this `sha256:…`, whatever the tag names or named before")
	return cmd
}

// shortNames are those of images that a registry has.
func shortNames() (names []string) {
	for _, e := range images.Catalogue() {
		if !strings.HasPrefix(e.Reference, images.Local) {
			names = append(names, e.Name)
		}
	}
	return names
}

// pinnedForm is how a configuration names the very image.
func pinnedForm(h images.Held) string {
	repository, _, byDigest := strings.Cut(h.Reference, "@")
	if colon := strings.LastIndex(repository, ":"); !byDigest && colon > strings.LastIndex(repository, "/") {
		repository = repository[:colon]
	}
	return repository + "@" + h.Digest
}

func (c *cli) imagesBuildCommand() *cobra.Command {
	var unpack bool
	var args []string
	cmd := &cobra.Command{
		Use:   "build NAME",
		Short: "make viiwork-engine:NAME here from its recipe: " + strings.Join(images.Recipes(), ", "),
		Args:  exactly(1, "it takes one name"),

		ValidArgsFunction: cobra.FixedCompletions(images.Recipes(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, names []string) error {
			if !slices.Contains(images.Recipes(), names[0]) {
				return usageError("there is no recipe for %q: use one of %s", names[0], strings.Join(images.Recipes(), ", "))
			}
			values := map[string]string{}
			for _, arg := range args {
				name, value, ok := strings.Cut(arg, "=")
				if !ok || name == "" {
					return usageError("--arg takes NAME=VALUE, not %q", arg)
				}
				values[name] = value
			}
			return c.withStock(cmd.Context(), false, func(ctx context.Context, stock *images.Stock) error {
				held, err := stock.Build(ctx, images.Making{Image: names[0], Args: values, Unpack: unpack,
					Tell: func(line string) { c.note("%s", printable(line)) }})
				if err != nil {
					return err
				}
				fmt.Fprintf(c.Out, "%s%s %s\n", images.Local, names[0], held.ID)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&unpack, "unpack", false, "with this machine's apt instead of a container's: Debian is reached, a registry is not needed")
	cmd.Flags().StringArrayVar(&args, "arg", nil, "a `NAME=VALUE` of the recipe, such as BASE, SUITES, SNAPSHOT, DEBIAN_MIRROR; may be given again")
	return cmd
}

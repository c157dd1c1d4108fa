package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"viiwork/appliance/config"
	"viiwork/appliance/modelcopy"
	"viiwork/appliance/status"
)

const pullHelp = `The files of a model that another machine of the mesh has are copied to this one, by its running node: all parts, and the
projector if the model's args name one (--mmproj). NODE:NAME is a node's name and that of a model or alias, or the path of a file below that
node's models_dir.

What was cut off, also by Ctrl-C, is kept beside the file as FILE.part, and the same command goes on from there. A file of another
content is never replaced. While either node answers requests the copy goes slower. docs/models.md says more.`

// pullFlags are the verb's flags.
type pullFlags struct {
	as, to, rate string
}

func (c *cli) pullCommand() *cobra.Command {
	var f pullFlags
	cmd := &cobra.Command{
		Use:   "pull NODE:NAME",
		Short: "copy a model's files from another machine of the mesh to this one",
		Long:  pullHelp,
		Args:  exactly(1, "it takes a node and a model as NODE:NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := f.request(args[0])
			if err != nil {
				return err
			}
			return c.pull(cmd.Context(), want)
		},
	}
	cmd.Flags().StringVar(&f.as, "as", "", "another name for the `file`; of several parts each gets its number behind")
	cmd.Flags().StringVar(&f.to, "to", "", "another `folder` than models_dir")
	cmd.Flags().StringVar(&f.rate, "rate", "", "at most so much a second, as a `size` like 50MiB")
	return cmd
}

// request is what the node is asked for.
func (f pullFlags) request(what string) (status.PullRequest, error) {
	want := status.PullRequest{As: f.as}
	var both bool
	if want.Node, want.Model, both = strings.Cut(what, ":"); !both || want.Node == "" || want.Model == "" {
		return want, usageError("%q is not NODE:NAME, such as attic:Qwen3.8-27B: 'viiwork models --mesh' lists what there is", what)
	}
	if f.as != "" {
		if err := modelcopy.CheckName(f.as); err != nil {
			return want, usageError("--as: %w", err)
		}
	}
	if f.to != "" {
		dir, err := filepath.Abs(f.to)
		if err != nil {
			return want, fmt.Errorf("finding %s: %w", f.to, err)
		}
		want.Dir = dir
	}
	if f.rate != "" {
		rate, err := config.ParseSize(strings.TrimSuffix(f.rate, "/s"))
		if err != nil {
			return want, usageError("--rate: %q %w", f.rate, err)
		}
		if rate < modelcopy.LeastRate {
			return want, usageError("--rate: a copy takes 1MiB a second at least")
		}
		want.Rate = rate
	}
	return want, nil
}

func (c *cli) pull(ctx context.Context, want status.PullRequest) error {
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	context.AfterFunc(ctx, release) // a second one ends the program
	n, err := c.node()
	if err != nil {
		return err
	}
	body, err := n.call(ctx, http.MethodPost, "/api/models/pull", want)
	if err != nil {
		return pullEnded(ctx, pullRefusal(err))
	}
	defer body.Close()
	done, err := c.followPull(body, want)
	if err != nil {
		return pullEnded(ctx, err)
	}
	return c.print(c.pulled(done, want))
}

// pullRefusal gives the exit code to a node's no.
func pullRefusal(err error) error {
	var no *refused
	if errors.As(err, &no) {
		err = errors.New(printable(err.Error()))
		switch no.status {
		case http.StatusConflict:
			return coded{exitRefused, err}
		case http.StatusBadRequest:
			return coded{exitUsage, err}
		}
	}
	return err
}

// pullEnded prefers what the owner did to what came of it.
func pullEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("ended; what has come is kept: the same command goes on from there")
	}
	return err
}

// followPull shows how far it has come, until the end.
func (c *cli) followPull(body io.Reader, want status.PullRequest) (status.Pulled, error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	show := newPullBar(c, want.Node)
	defer show.clear()
	for lines.Scan() {
		var line status.Pull
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return status.Pulled{}, fmt.Errorf("reading the node's answer: %w", err)
		}
		switch {
		case line.Done != nil:
			return *line.Done, nil
		case line.Error != "" && line.Refused:
			return status.Pulled{}, coded{exitRefused, errors.New(printable(line.Error))}
		case line.Error != "":
			return status.Pulled{}, errors.New(printable(line.Error))
		default:
			show.at(line)
		}
	}
	if err := lines.Err(); err != nil {
		return status.Pulled{}, fmt.Errorf("reading the node's answer: %w", err)
	}
	return status.Pulled{}, errors.New("the node ended before the copy did; what has come is kept: start it, and run the same command again")
}

// pulled says what is here now, and what makes it a model of this machine.
func (c *cli) pulled(done status.Pulled, want status.PullRequest) *bytes.Buffer {
	out := new(bytes.Buffer)
	for _, f := range done.Files {
		was := "copied"
		if f.Had {
			was = "was here"
		}
		fmt.Fprintf(out, "%s %s  %s  sha256 %s\n", was, printable(f.Path), modelcopy.Bytes(f.Size), f.SHA256)
	}
	if c.quiet || len(done.Files) == 0 {
		return out
	}
	cfg, where, _ := c.load() // a broken one must not spoil the answer
	dir, known := "", map[string]bool{}
	if cfg == nil {
		where = "viiwork.yaml"
	} else {
		dir = cfg.ModelsDir
		for _, m := range cfg.Models {
			known[m.Path] = true
		}
	}
	if first := done.Files[0].Path; known[first] {
		fmt.Fprintf(out, "\nthe configuration has it already: 'viiwork models' says how it is getting on\n")
		return out
	}
	fmt.Fprintf(out, "\nto serve it, add this to 'models' in %s, with the gpus and the context you want for it, and reload the node (SIGHUP):\n\n", where)
	name := done.Model
	if strings.HasSuffix(want.Model, ".gguf") && name == want.Model {
		name = strings.TrimSuffix(filepath.Base(name), ".gguf")
	}
	path := done.Files[0].Path
	if rel, err := filepath.Rel(dir, path); dir != "" && err == nil && filepath.IsLocal(rel) {
		path = rel
	}
	fmt.Fprintf(out, "  - name: %s\n    path: %s\n", yamlWord(name), yamlWord(path))
	if last := done.Files[len(done.Files)-1]; last.MMProj {
		fmt.Fprintf(out, "    args: [--mmproj, %s]\n", yamlWord(last.Path))
	}
	return out
}

var plainWord = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/_-]*[._/-][A-Za-z0-9._/-]*$`)

// yamlWord writes a text so that YAML reads it as that text.
func yamlWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

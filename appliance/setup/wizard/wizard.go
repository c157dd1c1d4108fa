package wizard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/tsnode"
)

// Config is what a Wizard is made of.
type Config struct {
	Sight   Sight
	Answers Answers  // what is said already
	Prompt  Prompter // nil = nobody is asked: all must be said already
	DryRun  bool     // show all and do nothing: no device comes up, and nobody is asked over the network

	// Preflight looks at what a node needs of this machine; nil = nobody does.
	Preflight func(ctx context.Context, n setup.Needs) []setup.Check
	// Files lists the model files below dir, with what would become of each.
	Files func(ctx context.Context, dir string) ([]status.ModelFile, error)
	// Digest is the one by which nodes tell equal model files; nil = names are not compared.
	Digest func(ctx context.Context, path string) (string, error)
	// Running tells that this machine's node runs: it has the device then, and is on its network already.
	Running bool
	Log     *slog.Logger // nil = silent
}

// Wizard is one conversation.
type Wizard struct {
	Config
	a      Answers
	device *device
	seen   map[string]status.ModelFile // by path, of those that were listed
}

// New makes a Wizard. It starts nothing.
func New(cfg Config) *Wizard {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Wizard{Config: cfg, a: cfg.Answers, seen: map[string]status.ModelFile{}}
}

// Run asks what is not said yet, brings this machine's device up, and returns the setup that the owner agreed to. Nothing
// is written but the device's own folder. Whoever does not go on from there calls Forget, else Keep.
func (w *Wizard) Run(ctx context.Context) (Setup, error) {
	if w.Prompt == nil {
		draft, err := Draft(w.a, w.Sight)
		if err == nil {
			err = w.unmet(ctx, &draft.Config)
		}
		if err == nil && !w.DryRun && w.a.Mesh.AuthKey != "" && draft.Config.Mesh.Network == tsnode.Tailnet {
			err = w.comeUp(ctx, draft.Config)
		}
		return draft, err
	}
	for _, step := range []func(context.Context) error{
		w.askNode, w.preflight, w.showCards, w.askModelsDir, w.askModels, w.askNames, w.askPlan, w.askMesh, w.compareNames,
	} {
		if err := step(ctx); err != nil {
			return Setup{}, err
		}
	}
	draft, err := Draft(w.a, w.Sight)
	if err != nil {
		return Setup{}, err
	}
	return draft, w.agree(ctx, &draft)
}

// Keep ends the wizard's hold on the device: the node takes it over as it is.
func (w *Wizard) Keep() {
	if w.device != nil {
		w.device.close()
		w.device = nil
	}
}

// Forget takes back what the wizard did: a device that it made is logged out and its folder removed.
func (w *Wizard) Forget() error {
	if w.device == nil {
		return nil
	}
	d := w.device
	w.device = nil
	return d.forget()
}

// askNode asks what this machine is called.
func (w *Wizard) askNode(ctx context.Context) error {
	w.Prompt.Tell("This sets this machine up as a node of a viiwork mesh. Nothing is changed before\n" +
		"you have seen every file and agreed. Ctrl-C leaves, with the machine as it was.\n")
	if w.a.Node.Name != "" {
		return nil
	}
	usual := config.NodeName(w.Sight.Name)
	if w.Sight.Config != nil {
		usual = w.Sight.Config.Node.Name
	}
	name, err := w.Prompt.Ask(ctx, Question{
		Title: "What is this machine called in the mesh?", Help: "Each machine needs a name of its own.", Text: usual,
		Check: func(s string) error {
			if config.NodeName(s) != s {
				return errors.New("use letters a to z, digits and dashes, at most 32")
			}
			return nil
		},
	})
	w.a.Node.Name = name
	return err
}

// preflight shows what a node needs and this machine lacks.
func (w *Wizard) preflight(ctx context.Context) error {
	if w.Preflight == nil || w.Running {
		return nil
	}
	d, _ := draftModels(Answers{Node: w.a.Node, API: w.a.API}, w.Sight)
	checks := w.Config.Preflight(ctx, setup.Needs{
		Port: d.Config.API.Port, Gossip: cmp.Or(w.a.Mesh.BindPort, d.Config.Mesh.BindPort), Host: d.Config.API.Host,
		StateDir: d.Config.Node.StateDir, NoDocker: w.Sight.runner(w.a.Engine, engine.AccelNone) == "native",
	})
	var lines []string
	for _, c := range checks {
		lines = append(lines, folded(fmt.Sprintf("%-4s  ", c.State), c.Text))
		if c.State == setup.Warn || c.State == setup.Fail {
			lines = append(lines, folded("      cause: ", c.Cause), folded("      fix:   ", c.Fix))
		}
	}
	w.Prompt.Tell("\nWhat a node needs of this machine:\n" + strings.Join(lines, "\n"))
	if setup.Healthy(checks) {
		return nil
	}
	at, err := w.Prompt.Choose(ctx, Question{
		Title: "Something is missing. What now?", Options: []string{"Leave, and mend it first", "Go on: the node will not serve before it is mended"},
	})
	if err == nil && at == 0 {
		err = ErrLeft
	}
	return err
}

// unmet is what this machine lacks of what a configuration needs, where nobody can be asked whether to go on without it.
func (w *Wizard) unmet(ctx context.Context, cfg *config.Config) error {
	if w.Preflight == nil || w.Running || w.DryRun {
		return nil
	}
	boxed := slices.ContainsFunc(cfg.Models, func(m config.Model) bool { return m.Llamacpp.Runner == "docker" })
	checks := w.Config.Preflight(ctx, setup.Needs{
		Port: cfg.API.Port, Gossip: cfg.Mesh.BindPort, Host: cfg.API.Host, StateDir: cfg.Node.StateDir, NoDocker: !boxed,
	})
	var lacks []string
	for _, c := range checks {
		if c.State == setup.Fail {
			lacks = append(lacks, fmt.Sprintf("%s: %s: %s", c.Text, c.Cause, c.Fix))
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("a node could not serve here, nothing was changed: %s", strings.Join(lacks, "\n"))
}

func (w *Wizard) showCards(context.Context) error {
	lines := []string{"\nGraphics cards:"}
	for _, c := range w.Sight.Cards {
		lines = append(lines, "  "+cardLine(c))
	}
	if len(w.Sight.Cards) == 0 {
		lines = append(lines, "  none: models run on the processor")
	}
	for _, f := range w.Sight.Faults {
		lines = append(lines, folded("  ", f.Text+": "+f.Fix))
	}
	w.Prompt.Tell(strings.Join(lines, "\n"))
	return nil
}

// agree shows all that would be written and asks for a yes.
func (w *Wizard) agree(ctx context.Context, d *Setup) error {
	var b strings.Builder
	b.WriteString("\nThese files make the node:\n")
	d.writeFiles(&b)
	for _, note := range d.Notes {
		b.WriteString(folded("note  ", note) + "\n")
	}
	for _, todo := range d.Todo {
		b.WriteString(folded("to do ", todo) + "\n")
	}
	w.Prompt.Tell(b.String())
	if w.DryRun {
		return nil
	}
	yes := "Yes, write them and start the node"
	if len(d.Todo) > 0 {
		yes = "Yes, write them; the node is started once what is left to do is done"
	}
	at, err := w.Prompt.Choose(ctx, Question{Title: "Write these files?", Options: []string{yes, "No, leave the machine as it is"}})
	if err == nil && at != 0 {
		err = ErrLeft
	}
	return err
}

// has reports whether a model of that name is among those chosen.
func (a *Answers) has(name string) bool {
	return slices.ContainsFunc(a.Models, func(m ModelAnswer) bool { return m.Name == name })
}

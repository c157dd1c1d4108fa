package wizard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/status"
)

// askModelsDir asks where the model files are.
func (w *Wizard) askModelsDir(ctx context.Context) error {
	if w.a.ModelsDir != "" || w.a.chosen {
		return nil
	}
	usual := config.Default().ModelsDir
	if w.Sight.Config != nil {
		usual = w.Sight.Config.ModelsDir
	}
	dir, err := w.Prompt.Ask(ctx, Question{
		Title: "Where are the model files?", Help: "The folder with the GGUF files, also below it. Nothing is downloaded.", Text: usual,
		Check: func(s string) error {
			if !filepath.IsAbs(s) {
				return errors.New("write the whole path, from /")
			}
			if _, err := os.ReadDir(s); err != nil {
				return fmt.Errorf("%w: make the folder, or name another", err)
			}
			return nil
		},
	})
	w.a.ModelsDir = filepath.Clean(dir)
	return err
}

// askModels lists what is there and asks what to serve of it.
func (w *Wizard) askModels(ctx context.Context) error {
	if w.a.chosen {
		return nil
	}
	files, err := w.Config.Files(ctx, w.a.ModelsDir)
	if err != nil {
		return err
	}
	var offered []status.ModelFile
	q := Question{Title: "Which models does this machine serve?", Help: "None is fine: it then passes requests on."}
	for _, f := range files {
		switch {
		case f.Error != "":
			w.Prompt.Tell("cannot be used: " + f.Path + ": " + f.Error)
			continue
		case !plainPath(f.Path):
			w.Prompt.Tell("cannot be used: " + f.Path + ": its name holds letters that no configuration can: rename the file")
			continue
		case f.Kind == "projector":
			continue
		}
		w.seen[f.Path] = f
		if w.served(f.Path) {
			q.Picked = append(q.Picked, len(offered))
		}
		offered = append(offered, f)
		q.Options = append(q.Options, w.fileLine(f))
	}
	w.a.chosen = true
	if len(offered) == 0 {
		w.Prompt.Tell("There is no model file below " + w.a.ModelsDir + ": this node will pass requests on to the others.")
		return nil
	}
	picked, err := w.Prompt.Pick(ctx, q)
	slices.Sort(picked)
	for _, n := range picked {
		w.a.Models = append(w.a.Models, ModelAnswer{File: offered[n].Path})
	}
	return err
}

// served tells that the configuration that is there has the file.
func (w *Wizard) served(path string) bool {
	return w.Sight.Config != nil && slices.ContainsFunc(w.Sight.Config.Models, func(m config.Model) bool { return m.Path == path })
}

// fileLine is a model file as an owner chooses by it.
func (w *Wizard) fileLine(f status.ModelFile) string {
	short, err := filepath.Rel(w.a.ModelsDir, f.Path)
	if err != nil {
		short = f.Path
	}
	words := []string{fmt.Sprintf("%.1f GiB", float64(f.Size)/(1<<30))}
	for _, word := range []string{f.Architecture, f.Quantisation} {
		if word != "" {
			words = append(words, word)
		}
	}
	if f.Context > 0 {
		words = append(words, fmt.Sprintf("context %d", f.Context))
	}
	if f.Kind != "chat" && f.Kind != "" {
		words = append(words, f.Kind)
	}
	if f.Fits != nil && !*f.Fits {
		words = append(words, "does not fit: "+f.Text)
	}
	return short + "  " + strings.Join(words, ", ")
}

// askNames asks what the models are called.
func (w *Wizard) askNames(ctx context.Context) error {
	for i := range w.a.Models {
		m := &w.a.Models[i]
		if m.Name != "" {
			continue
		}
		usual := NameOf(m.File)
		if w.Sight.Config != nil {
			for _, old := range w.Sight.Config.Models {
				if old.Path == m.File {
					usual = old.Name
				}
			}
		}
		for n := 2; w.a.has(usual); n++ {
			usual = NameOf(m.File) + "-" + strconv.Itoa(n)
		}
		name, err := w.Prompt.Ask(ctx, Question{
			Title: "What is " + filepath.Base(m.File) + " called?", Help: "Clients ask for it by this name. Give the same model the same name on every machine.", Text: usual,
			Check: func(s string) error {
				if s == "" || strings.ContainsAny(s, " \t\"'") || len(s) > 128 {
					return errors.New("a name has no blanks or quotes, and at most 128 characters")
				}
				if w.a.has(s) {
					return errors.New("another model has this name")
				}
				return nil
			},
		})
		if err != nil {
			return err
		}
		m.Name = name
	}
	return nil
}

// askPlan shows what each model gets until the owner accepts it.
func (w *Wizard) askPlan(ctx context.Context) error {
	for len(w.a.Models) > 0 {
		d, err := draftModels(w.a, w.Sight)
		var faults config.Faults
		if err != nil && !errors.As(err, &faults) {
			return err
		}
		w.Prompt.Tell(planText(&d, faults))
		q := Question{Title: "What each model gets"}
		if len(faults) == 0 {
			q.Options = append(q.Options, "Accept this plan")
		}
		first := len(q.Options)
		for _, m := range w.a.Models {
			q.Options = append(q.Options, "Change "+m.Name, "Drop "+m.Name)
		}
		at, err := w.Prompt.Choose(ctx, q)
		if err != nil {
			return err
		}
		if at < first {
			return nil
		}
		if i := (at - first) / 2; (at-first)%2 == 1 {
			w.a.Models = slices.Delete(w.a.Models, i, i+1)
		} else if err := w.editLine(ctx, i, &d); err != nil {
			return err
		}
	}
	return nil
}

func planText(d *Setup, faults config.Faults) string {
	lines := []string{"\nThe plan:"}
	for _, m := range d.Plan.Models {
		lines = append(lines, "  "+m.Name+": "+d.Plan.Sentence(m))
	}
	for _, r := range d.Plan.Refusals {
		lines = append(lines, "  "+d.picks[r.Model].name+" does not fit: "+r.Text)
	}
	if len(d.Plan.Refusals) == 0 {
		for _, f := range faults {
			lines = append(lines, "  "+f.Message)
		}
	}
	for _, warning := range d.Plan.Warnings {
		lines = append(lines, "  "+warning.Text)
	}
	return strings.Join(lines, "\n")
}

// editLine asks for one model's cards, slots and context.
func (w *Wizard) editLine(ctx context.Context, i int, d *Setup) error {
	m := w.a.Models[i]
	cards, slots, context := []int(nil), "", ""
	for _, p := range d.Plan.Models {
		if p.Name == m.Name {
			cards, slots, context = slices.Concat(p.Groups...), strconv.Itoa(p.Slots), strconv.Itoa(p.Context)
			m.GPUsPerBackend = max(len(p.Groups[0]), 1)
		}
	}
	whole := func(s string) error {
		if n, err := strconv.Atoi(s); s != "" && (err != nil || n < 1) {
			return errors.New("write a whole number from 1, or nothing to have it worked out")
		}
		return nil
	}
	if len(w.Sight.Cards) > 0 && w.Sight.OS != "darwin" {
		text, err := w.Prompt.Ask(ctx, Question{Title: "Cards of " + m.Name, Help: "Their numbers with blanks between them; - to have them worked out.", Text: cardNumbers(cards), Check: checkCards})
		if err != nil {
			return err
		}
		m.GPUs = readCards(text)
		if each, err := w.Prompt.Ask(ctx, Question{Title: "Cards of one engine", Help: "Several hold a model that one does not; else each card serves alone.", Text: strconv.Itoa(max(m.GPUsPerBackend, 1)), Check: whole}); err != nil {
			return err
		} else if m.GPUsPerBackend, _ = strconv.Atoi(each); len(m.GPUs) == 0 {
			m.GPUsPerBackend = 0
		}
	}
	answer, err := w.Prompt.Ask(ctx, Question{Title: "Slots of " + m.Name, Help: "Requests that one engine answers at a time.", Text: slots, Check: whole})
	if err != nil {
		return err
	}
	m.Parallel, _ = strconv.Atoi(answer)
	if answer, err = w.Prompt.Ask(ctx, Question{Title: "Context of each slot", Help: "In tokens.", Text: context, Check: whole}); err != nil {
		return err
	}
	m.Context, _ = strconv.Atoi(answer)
	w.a.Models[i] = m
	return nil
}

func cardNumbers(cards []int) string {
	words := make([]string, len(cards))
	for i, n := range cards {
		words[i] = strconv.Itoa(n)
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

func readCards(text string) (cards []int) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		if n, err := strconv.Atoi(word); err == nil {
			cards = append(cards, n)
		}
	}
	return cards
}

func checkCards(text string) error {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		if n, err := strconv.Atoi(word); word != "-" && (err != nil || n < 0) {
			return errors.New("write the numbers of cards, such as 0 1, or -")
		}
	}
	return nil
}

package wizard

import (
	"fmt"
	"io"
	"strings"

	"viiwork/engine/gpu"
)

// Shown is a setup for programs: 'init --dry-run --json'. Secrets are masked in it.
type Shown struct {
	Files []ShownFile  `json:"files"`
	Plan  []ShownModel `json:"plan"`
	GPUs  []ShownCard  `json:"gpus"`
	Notes []string     `json:"notes"`
	Todo  []string     `json:"todo"` // before the node can be started
}

// ShownFile is a file that would be written.
type ShownFile struct {
	Path    string `json:"path"`
	Mode    string `json:"mode"` // 0644; a folder's begins with d, a link's with l
	Content string `json:"content"`
}

// ShownModel is what a model would get.
type ShownModel struct {
	Name        string  `json:"name"`
	Path        string  `json:"path"`
	Accel       string  `json:"accel"`
	GPUs        [][]int `json:"gpus"` // of each backend
	Context     int     `json:"context"`
	Parallel    int     `json:"parallel"`
	PromptCache int64   `json:"prompt_cache_bytes"`
	Text        string  `json:"text"`
}

// ShownCard is a card that was found.
type ShownCard struct {
	Index      int    `json:"index"`
	Accel      string `json:"accel"`
	Name       string `json:"name"`
	Memory     *int64 `json:"memory_bytes"` // null = unknown
	Integrated bool   `json:"integrated"`
}

// Show makes a setup fit to be shown.
func (d *Setup) Show(cards []gpu.Card) Shown {
	out := Shown{Files: []ShownFile{}, Plan: []ShownModel{}, GPUs: []ShownCard{}, Notes: append([]string{}, d.Notes...), Todo: append([]string{}, d.Todo...)}
	for _, f := range d.Files {
		mode := fmt.Sprintf("%04o", f.Mode.Perm())
		switch {
		case f.Link != "":
			mode = "link"
		case f.IsDir():
			mode = "d" + mode
		}
		out.Files = append(out.Files, ShownFile{Path: f.Path, Mode: mode, Content: f.Shown()})
	}
	for _, m := range d.Plan.Models {
		shown := ShownModel{Name: m.Name, Path: m.File.Path, Accel: string(m.Accel), GPUs: [][]int{}, Context: m.Context, Parallel: m.Slots, PromptCache: m.PromptCache, Text: d.Plan.Sentence(m)}
		for _, group := range m.Groups {
			if len(group) > 0 {
				shown.GPUs = append(shown.GPUs, group)
			}
		}
		out.Plan = append(out.Plan, shown)
	}
	for _, c := range cards {
		out.GPUs = append(out.GPUs, ShownCard{Index: c.Index, Accel: string(c.Accel), Name: c.Name, Memory: c.Memory, Integrated: c.Integrated})
	}
	return out
}

// Write shows the setup to a person: the plan, every file whole with its secrets masked, and what is left to do.
func (d *Setup) Write(w io.Writer, s Sight) error {
	var b strings.Builder
	for _, c := range s.Cards {
		fmt.Fprintf(&b, "card  %s\n", cardLine(c))
	}
	for _, m := range d.Plan.Models {
		fmt.Fprintf(&b, "model %s: %s\n", m.Name, d.Plan.Sentence(m))
	}
	if len(d.Plan.Models) == 0 {
		b.WriteString("model none: this node passes requests on to others\n")
	}
	d.writeFiles(&b)
	for _, note := range d.Notes {
		fmt.Fprintf(&b, "note  %s\n", note)
	}
	for _, todo := range d.Todo {
		fmt.Fprintf(&b, "to do %s\n", todo)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("showing the setup: %w", err)
	}
	return nil
}

func (d *Setup) writeFiles(b *strings.Builder) {
	for _, f := range d.Files {
		switch {
		case f.IsDir():
			fmt.Fprintf(b, "\n--- %s/ (folder, %04o)\n", f.Path, f.Mode.Perm())
		case f.Link != "", f.From != "":
			fmt.Fprintf(b, "\n--- %s %s", f.Path, f.Shown())
		default:
			fmt.Fprintf(b, "\n--- %s (%04o)\n%s", f.Path, f.Mode.Perm(), f.Shown())
		}
	}
	b.WriteString("\n")
}

package main

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"viiwork/appliance"
	"viiwork/appliance/modelcopy"
	"viiwork/appliance/status"
)

// modelsLsCommand lists files. It needs no running node: what is on the disk is looked at here.
func (c *cli) modelsLsCommand(served *cobra.Command) *cobra.Command {
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "list this machine's models; with --all every model file below models_dir, and what of it fits here",
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !all {
				if asJSON {
					if err := served.Flags().Set("json", "true"); err != nil {
						return err
					}
				}
				served.SetContext(cmd.Context())
				return served.RunE(served, args)
			}
			cfg, _, err := c.load()
			if cfg == nil {
				return err
			}
			var machine appliance.Survey
			files, err := machine.ModelFiles(cmd.Context(), cfg.ModelsDir)
			if err != nil {
				return err
			}
			if asJSON {
				return c.printJSON(files)
			}
			return c.print(drawModelFiles(files, cfg.ModelsDir, c.bold()))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every GGUF file below models_dir, served or not")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// drawModelFiles has a line for each file, those that are broken last.
func drawModelFiles(files []status.ModelFile, dir string, bold bool) *bytes.Buffer {
	out := new(bytes.Buffer)
	if len(files) == 0 {
		fmt.Fprintf(out, "no model files below %s: put some there, or set models_dir\n", printable(dir))
		return out
	}
	t := table{bold: bold, head: []string{"FILE", "ARCHITECTURE", "TYPE", "SIZE", "TRAINED", "FITS", "HERE"}}
	for _, f := range files {
		if f.Error == "" {
			t.add(below(dir, f.Path), orDash(f.Architecture), orDash(f.Quantisation), modelcopy.Bytes(f.Size), number(f.Context), fitsWord(f.Fits), orDash(f.Text))
		}
	}
	if len(t.rows) > 0 {
		t.draw(out)
	}
	for _, f := range files {
		if f.Error != "" {
			fmt.Fprintf(out, "%s: %s\n", printable(below(dir, f.Path)), printable(f.Error))
		}
	}
	return out
}

func below(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil {
		return rel
	}
	return path
}

func fitsWord(fits *bool) string {
	switch {
	case fits == nil:
		return "-"
	case *fits:
		return "yes"
	}
	return "no"
}

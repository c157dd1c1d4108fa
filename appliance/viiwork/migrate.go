package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"viiwork/appliance/config"
	"viiwork/appliance/setup"
)

const migrateHelp = `Rewrites a file of viiwork 1 for this version, to standard output or into a file of your choice. What could not be
taken over as it was is listed on the error stream, each key at its line, with the reason and what to do.

The file that is read is not changed. MIGRATING.md has the whole table.`

func (c *cli) configMigrateCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "migrate FILE",
		Short: "rewrite a viiwork.yaml of viiwork 1 for this version",
		Long:  migrateHelp,
		Args:  exactly(1, "it takes one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readBounded(args[0])
			if err != nil {
				return fmt.Errorf("reading the old file: %w", err)
			}
			m, err := config.Migrate(args[0], text)
			if err != nil {
				return err
			}
			if output == "" {
				if _, err := c.Out.Write(m.Text); err != nil {
					return fmt.Errorf("writing the new file: %w", err)
				}
			} else {
				path, err := filepath.Abs(output)
				if err != nil {
					return fmt.Errorf("finding %s: %w", output, err)
				}
				plan := setup.Plan{Files: []setup.File{{Path: path, Mode: 0o644, Content: m.Text}}}
				if err := c.apply(cmd.Context(), plan); err != nil {
					return err
				}
			}
			for _, left := range m.Left {
				c.note("%s", printable(left.String()))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `file` instead of standard output")
	return cmd
}

// readBounded reads no more than a configuration may have, and a little: config says what is too much.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: name the old viiwork.yaml", err)
		}
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 2<<20))
}

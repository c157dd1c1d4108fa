package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (c *cli) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "write the manual pages into a directory",
		Long:  "Writes viiwork.1 and one page for each verb into DIR, which is made if it is missing.\n\n  viiwork man ~/.local/share/man/man1 && man viiwork",
		Args:  exactly(1, "it takes one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("making the directory: %w: choose one you may write to", err)
			}
			r := thisRelease()
			header := &doc.GenManHeader{Section: "1", Source: "viiwork " + r.Version, Manual: "viiwork"}
			if date := r.date(); !date.IsZero() {
				header.Date = &date // one release always writes the same pages
			}
			if err := doc.GenManTree(cmd.Root(), header, args[0]); err != nil {
				return fmt.Errorf("writing the manual pages: %w: choose a directory you may write to", err)
			}
			c.note("the pages are in %s", args[0])
			return nil
		},
	}
}

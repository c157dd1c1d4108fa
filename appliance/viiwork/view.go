package main

import (
	"bytes"

	"github.com/spf13/cobra"
)

// view is a verb that shows a document of the running node, drawn for people or with --json as the node says it.
type view struct {
	use, short string
	path       string // of the document
	all        string // what --mesh will show once there is a mesh
}

// viewCommand makes the verb; draw turns the document, decoded into a T, into a page.
func viewCommand[T any](c *cli, v view, draw func(T, bool) *bytes.Buffer) *cobra.Command {
	var asJSON, mesh bool
	cmd := &cobra.Command{
		Use:   v.use,
		Short: v.short,
		Args:  exactly(0, takesNone),
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := c.node()
			if err != nil {
				return err
			}
			if mesh {
				c.note("this version knows one node, this one: the mesh is not built yet")
			}
			if asJSON {
				return c.relay(cmd.Context(), n, v.path)
			}
			var document T
			if err := n.get(cmd.Context(), v.path, &document); err != nil {
				return err
			}
			return c.print(draw(document, c.bold()))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as GET "+v.path+" answers")
	cmd.Flags().BoolVar(&mesh, "mesh", false, v.all+" (this version runs one)")
	return cmd
}

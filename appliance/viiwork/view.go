package main

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"
)

// meshPath is the document of the whole mesh that --mesh --json prints, whichever verb it is asked of.
const meshPath = "/v1/cluster"

// view is a verb that shows a document of the running node, drawn for people or with --json as the node says it.
type view struct {
	use, short string
	path       string // of the document
	all        string // what --mesh shows

	// mesh draws what --mesh shows.
	mesh func(ctx context.Context, n *node, bold bool) (*bytes.Buffer, error)
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
			drawn := v.mesh
			if !mesh {
				drawn = drawing(v.path, draw)
			}
			if asJSON && mesh {
				return c.relay(cmd.Context(), n, meshPath)
			}
			if asJSON {
				return c.relay(cmd.Context(), n, v.path)
			}
			page, err := drawn(cmd.Context(), n, c.bold())
			if err != nil {
				return err
			}
			return c.print(page)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as GET "+v.path+" answers, with --mesh as GET "+meshPath+" does")
	cmd.Flags().BoolVar(&mesh, "mesh", false, v.all)
	return cmd
}

// drawing fetches the document at path and draws it.
func drawing[T any](path string, draw func(T, bool) *bytes.Buffer) func(context.Context, *node, bool) (*bytes.Buffer, error) {
	return func(ctx context.Context, n *node, bold bool) (*bytes.Buffer, error) {
		var document T
		if err := n.get(ctx, path, &document); err != nil {
			return nil, err
		}
		return draw(document, bold), nil
	}
}

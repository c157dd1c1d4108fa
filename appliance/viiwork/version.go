package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
)

// Set by the linker: -X main.version=… -X main.commit=… -X main.built=2026-01-31T12:00:00Z, and in releases
// -X main.publisher=github.com/OWNER/REPOSITORY/.github/workflows/FILE.yml: without it no update is ever believed.
var version, commit, built, publisher string

// release says what this program is; "" where nobody knows.
type release struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	Built     string `json:"built"`     // RFC 3339
	Publisher string `json:"publisher"` // whose updates it believes
	Go        string `json:"go"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
}

// thisRelease prefers what the linker was told, then what the Go command stamped, then owns up to "dev".
func thisRelease() release {
	r := release{Version: version, Commit: commit, Built: built, Publisher: publisher, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if stamped, ok := debug.ReadBuildInfo(); ok {
		for _, s := range stamped.Settings {
			switch {
			case s.Key == "vcs.revision" && r.Commit == "":
				r.Commit = s.Value
			case s.Key == "vcs.time" && r.Built == "":
				r.Built = s.Value
			}
		}
	}
	if r.Version == "" {
		r.Version = "dev"
	}
	return r
}

// date is when the program was built; zero when unknown.
func (r release) date() time.Time {
	t, err := time.Parse(time.RFC3339, r.Built)
	if err != nil {
		return time.Time{}
	}
	return t
}

func (c *cli) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print what this program is and when it was built",
		Args:  exactly(0, takesNone),
		RunE: func(*cobra.Command, []string) error {
			r := thisRelease()
			if asJSON {
				return c.printJSON(r)
			}
			out := new(bytes.Buffer)
			fmt.Fprintf(out, "viiwork %s\n", r.Version)
			for _, fact := range [][2]string{{"commit", r.Commit}, {"built", r.Built}, {"from", r.Publisher}, {"go", r.Go + " " + r.OS + "/" + r.Arch}} {
				if fact[1] != "" {
					fmt.Fprintf(out, "%-7s %s\n", fact[0], fact[1])
				}
			}
			return c.print(out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printJSON writes v the way every --json does: indented, one document, a newline at its end.
func (c *cli) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return c.print(bytes.NewBuffer(append(text, '\n')))
}

// Command viiwork runs one node of a mesh and looks at it, or at all of them: the models of many machines' graphics cards
// behind one OpenAI- and Anthropic-style address.
//
// Each verb is a thin shell over a package: serve over the appliance, doctor over setup, demo over serve in processes of
// their own, the rest over the running node's socket. Nothing here decides anything a package could decide.
package main

import (
	"context"
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // the release's image has no files of certificates; where there are some they hold
)

func main() {
	os.Exit(Run(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}))
}

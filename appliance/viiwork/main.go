// Command viiwork runs one node and looks at it: the models of this machine's graphics cards behind one OpenAI- and
// Anthropic-style address.
//
// Each verb is one file and a thin shell over a package: serve and demo over the appliance, doctor over setup, the
// rest over the running node's socket. Nothing here decides anything a package could decide.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(Run(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}))
}

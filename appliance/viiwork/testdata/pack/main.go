// Command pack writes a release of one program into a folder and prints its digest. It is a process of its own since the race
// detector makes compressing a program take minutes.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"viiwork/update/build"
)

func main() {
	if err := run(os.Args[1], os.Args[2], build.Release{Version: os.Args[3], Commit: os.Args[4], Publisher: os.Args[5], Built: time.Unix(1e9, 0)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path, dir string, rel build.Release) error {
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	index, _, err := build.Layout(dir, rel, map[string][]byte{runtime.GOOS + "/" + runtime.GOARCH: program})
	if err == nil {
		fmt.Print(index)
	}
	return err
}

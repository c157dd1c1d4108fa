// Command badnode is a release of viiwork that is no good. Which version it is and what is wrong with it stands at its end,
// after the program.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

type stamp struct{ Version, Fault string }

func main() {
	is, err := read()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch args := strings.Join(os.Args[1:], " "); {
	case strings.HasPrefix(args, "version"):
		fmt.Printf("{\"version\":%q,\"os\":%q,\"arch\":%q}\n", is.Version, runtime.GOOS, runtime.GOARCH)
	case strings.HasPrefix(args, "config validate") && is.Fault == "refuses":
		fmt.Fprintln(os.Stderr, "viiwork.yaml:1:1: there is no such key")
		os.Exit(1)
	case strings.HasPrefix(args, "serve"):
		is.serve()
	}
}

func read() (is stamp, err error) {
	path, err := os.Executable()
	if err != nil {
		return is, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return is, err
	}
	return is, json.Unmarshal(text[strings.LastIndex(string(text), "\n{"):], &is)
}

var stateDir = regexp.MustCompile(`state_dir: "([^"]+)"`)

// serve answers on the node's socket as a node does that has its model, as far as its fault lets it.
func (is stamp) serve() {
	text, err := os.ReadFile(os.Args[slices.Index(os.Args, "--config")+1])
	if err != nil || is.Fault == "mute" { // nobody but what started it can know its process; it gives up for both
		for end := time.Now().Add(12 * time.Second); time.Now().Before(end) && is.current(); {
			time.Sleep(100 * time.Millisecond)
		}
		os.Exit(1)
	}
	socket := filepath.Join(string(stateDir.FindSubmatch(text)[1]), "viiwork.sock")
	_ = os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var once sync.Once
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/status":
			fmt.Fprintf(w, `{"version":%q,"models":[{"name":"m","backends":[{"id":"m#0","state":"ready"}]}]}`, is.Version)
		case is.Fault == "fails":
			http.Error(w, `{"error":{"message":"no answer"}}`, http.StatusInternalServerError)
		default:
			once.Do(func() { time.AfterFunc(time.Second, func() { os.Exit(3) }) })
			fmt.Fprint(w, `{"choices":[{"message":{"content":"ready"}}]}`)
		}
	}))
}

// current reports whether it is what the next start would run. Once it was taken back it is only in the way.
func (is stamp) current() bool {
	path, err := os.Executable()
	if err != nil {
		return false
	}
	version, err := os.Readlink(filepath.Join(filepath.Dir(filepath.Dir(path)), "current"))
	return err == nil && version == is.Version
}

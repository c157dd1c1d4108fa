package main_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	viiwork "viiwork/appliance/viiwork"
	"viiwork/update/install"
)

// stampByFolder makes the program of a test that lies in a folder of versions the one that the folder is named for.
func stampByFolder() {
	running, err := os.Executable()
	if err != nil {
		return
	}
	if v, version := install.Of(running); v != nil {
		viiwork.StampVersion(version)
	}
}

// versions DIR PREVIOUS CURRENT: lays this program down there as two versions, as a setup and an update have left them.
func versions(ts *testscript.TestScript, _ bool, args []string) {
	self, err := os.Executable()
	ts.Check(err)
	dir := ts.MkAbs(args[0])
	for i, link := range []string{"previous", "current"} {
		version := args[1+i]
		ts.Check(os.MkdirAll(filepath.Join(dir, version), 0o755))
		ts.Check(linkOrCopy(self, filepath.Join(dir, version, "viiwork")))
		ts.Check(os.Symlink(version, filepath.Join(dir, link)))
	}
}

func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// endJudges is for scripts that failed halfway: a judge outlives who started it.
func endJudges(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		program, _ := os.Readlink(link)
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && strings.HasPrefix(program, dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

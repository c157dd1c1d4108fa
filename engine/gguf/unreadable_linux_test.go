package gguf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"viiwork/engine/enginetest"
	"viiwork/engine/gguf"
)

func TestUnreadableFileNamesTheUser(t *testing.T) {
	path, _ := model(t, enginetest.GGUFOptions{})
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	// Root reads every file, but not with the file rights of another user. Rights are the thread's: it is locked, and
	// gets root's back before it is given up.
	if os.Getuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer unix.Setfsuid(0)
		unix.Setfsuid(65534)
	}
	_, err := gguf.Read(path)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), fmt.Sprintf("by user %d", os.Getuid())) {
		t.Errorf("got %v, want a permission error that names the user", err)
	}
}

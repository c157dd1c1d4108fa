package images

import (
	"archive/tar"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed */Dockerfile cpu/unpack.sh cpu/import.sh
var recipes embed.FS

// Recipes lists the names of images that can be made here.
func Recipes() []string {
	found, _ := fs.Glob(recipes, "*/Dockerfile") // of a pattern that is right there is no error
	for i := range found {
		found[i] = path.Dir(found[i])
	}
	return found
}

// Making says what to make.
type Making struct {
	Image  string            // a short name
	Args   map[string]string // for the Dockerfile's ARGs, or the script's environment
	Unpack bool              // with this machine's apt instead of a container's: no registry is needed
	Tell   func(line string) // what the build prints, from one goroutine; nil = nobody watches
}

// Build makes an image and keeps its id in the book. Its name is [Local] with the short name. An image of that name is
// replaced at the end, or not at all.
func (s *Stock) Build(ctx context.Context, m Making) (Held, error) {
	if !slices.Contains(Recipes(), m.Image) {
		return Held{}, fmt.Errorf("there is no recipe for %q: use one of %s", m.Image, strings.Join(Recipes(), ", "))
	}
	if m.Tell == nil {
		m.Tell = func(string) {}
	}
	tag := Local + m.Image
	var err error
	if m.Unpack {
		err = unpack(ctx, m, tag)
	} else if err = s.cfg.Docker.Build(ctx, folder(m.Image), tag, m.Args, m.Tell); err != nil && packages(m.Image) != "" {
		err = fmt.Errorf("%w; where no registry can be reached, --unpack makes it with this machine's apt", err)
	}
	if err != nil {
		return Held{}, fmt.Errorf("making %s: %w", tag, err)
	}
	id, err := s.cfg.Docker.ImageID(ctx, tag)
	if err != nil {
		return Held{}, fmt.Errorf("looking for what was made: %w", err)
	}
	ref, err := canonical(tag)
	if err != nil {
		return Held{}, err
	}
	h := Held{Reference: ref.Name(), ID: id, At: s.cfg.Now().UTC().Truncate(time.Second)}
	return h, s.cfg.Book.keep(h)
}

// folder is what Docker builds from, as a tar that is the same every time.
func folder(image string) io.Reader {
	files := []string{image + "/Dockerfile"}
	if packages(image) != "" {
		files = append(files, "cpu/unpack.sh")
	}
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, file := range files {
		content, _ := recipes.ReadFile(file) // embedded: it is there
		_ = w.WriteHeader(&tar.Header{Name: path.Base(file), Mode: 0o755, Size: int64(len(content)), Format: tar.FormatUSTAR})
		_, _ = w.Write(content)
	}
	_ = w.Close()
	return &text
}

var packagesArg = regexp.MustCompile(`(?m)^ARG PACKAGES="(.+)"$`)

// packages names Debian's packages of an image; "" = it is not made of such.
func packages(image string) string {
	text, _ := recipes.ReadFile(image + "/Dockerfile")
	if found := packagesArg.FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return ""
}

// unpack runs the recipe's scripts on this machine, in a folder that is gone afterwards.
func unpack(ctx context.Context, m Making, tag string) error {
	if packages(m.Image) == "" {
		return fmt.Errorf("%s is not made of Debian's packages: leave --unpack out", m.Image)
	}
	work, err := os.MkdirTemp("", "viiwork-image-")
	if err != nil {
		return fmt.Errorf("making a folder to work in: %w", err)
	}
	defer os.RemoveAll(work)
	env := append(os.Environ(), "PACKAGES="+packages(m.Image))
	for name, value := range m.Args {
		env = append(env, name+"="+value)
	}
	tree := filepath.Join(work, "tree")
	for _, command := range [][]string{{"cpu/unpack.sh", tree}, {"cpu/import.sh", tree, tag}} {
		script, _ := recipes.ReadFile(command[0])
		file := filepath.Join(work, path.Base(command[0]))
		if err := os.WriteFile(file, script, 0o600); err != nil {
			return fmt.Errorf("writing the recipe: %w", err)
		}
		if err := run(ctx, append([]string{"sh", file}, command[1:]...), env, m.Tell); err != nil {
			return err
		}
	}
	return nil
}

// run runs one script to its end and passes on what it prints. A ctx that ends is told to all its processes, and they
// are given the time to clean up.
func run(ctx context.Context, command, env []string, tell func(string)) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	lines := &lineWriter{tell: tell}
	cmd.Stdout, cmd.Stderr = lines, lines
	err := cmd.Run()
	lines.flush()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &ended):
		return fmt.Errorf("%s: %w", lines.last, err)
	case err != nil:
		return fmt.Errorf("running the recipe: %w", err)
	}
	return nil
}

// lineMax bounds one line of a program that ends none.
const lineMax = 4096

// lineWriter hands on whole lines and remembers the last one.
type lineWriter struct {
	tell func(string)
	part []byte
	last string
}

func (w *lineWriter) Write(text []byte) (int, error) {
	for _, c := range text {
		if c == '\n' {
			w.flush()
		} else if len(w.part) < lineMax {
			w.part = append(w.part, c)
		}
	}
	return len(text), nil
}

func (w *lineWriter) flush() {
	if line := strings.TrimSpace(string(w.part)); line != "" {
		w.last = line
		w.tell(line)
	}
	w.part = w.part[:0]
}

package build

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Checkout says what a source tree is at: its commit and that commit's time. A tree with changes is refused: nobody could
// build it again.
func Checkout(ctx context.Context, source string) (commit string, at time.Time, err error) {
	changes, err := git(ctx, source, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return "", time.Time{}, err
	}
	if changes != "" {
		return "", time.Time{}, fmt.Errorf("looking at %s: it has changes that are in no commit: commit them or build from a clean checkout", source)
	}
	line, err := git(ctx, source, "show", "-s", "--format=%H %ct", "HEAD")
	if err != nil {
		return "", time.Time{}, err
	}
	commit, seconds, _ := strings.Cut(line, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("reading the commit's time: %w", err)
	}
	return commit, time.Unix(unix, 0).UTC(), nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking git about %s: %w: %s", dir, err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// kept are the settings of the Go command that say where modules come from and lie. They change no byte of a program:
// what a module must hold is in go.sum.
func kept() []string {
	return []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOMODCACHE", "GOCACHE", "GOPATH"}
}

// passed are variables of the machine that programs need to run at all.
func passed() []string {
	return []string{"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
}

// environment is all that the compiler is told: build.json's, and where its modules are.
func (r recipe) environment(ctx context.Context, source, platform string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"env", "-json"}, kept()...)...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+r.Toolchain)
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w: %s: install that toolchain, or let the Go command fetch it", r.Toolchain, err, strings.TrimSpace(said.String()))
	}
	var settings map[string]string
	if err := json.Unmarshal(text, &settings); err != nil {
		return nil, fmt.Errorf("asking the Go command: %w", err)
	}
	goos, goarch, _ := strings.Cut(platform, "/")
	env := []string{"GOENV=off", "GOTOOLCHAIN=" + r.Toolchain, "GOOS=" + goos, "GOARCH=" + goarch, "TZ=UTC", "LC_ALL=C"}
	for _, key := range kept() {
		env = append(env, key+"="+settings[key])
	}
	for _, key := range passed() {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	for key, value := range r.Env {
		env = append(env, key+"="+value)
	}
	return env, nil
}

// compile builds one program into out, an absolute path, and makes sure that it is of the toolchain that was asked for.
func (r recipe) compile(ctx context.Context, o Options, rel Release, platform, out string) error {
	env, err := r.environment(ctx, o.Source, platform)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", r.arguments(rel, out)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = o.Source, env, o.Progress, o.Progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building for %s: %w", platform, err)
	}
	made, err := buildinfo.ReadFile(out)
	if err != nil {
		return fmt.Errorf("building for %s: %w", platform, err)
	}
	if made.GoVersion != r.Toolchain {
		return fmt.Errorf("building for %s: it was made by %s, not %s: install that toolchain", platform, made.GoVersion, r.Toolchain)
	}
	return nil
}

package swap

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Labels of containers that are made here. None of those by which engines are found is among them: a node that starts
// would clear the helper away.
const (
	labelPlan = "viiwork.swap"        // the plan that the container belongs to
	labelRole = "viiwork.swap.role"   // node or helper
	compose   = "com.docker.compose." // of these, those that name the service are carried on
	nodeRole  = "node"
	aideRole  = "helper"
)

// ErrRefused is wrapped where this container cannot be replaced as it was started, or a version is not taken for a reason
// that a person may overrule by naming it.
var ErrRefused = errors.New("not replaced")

// Self is the container that this process runs in, as far as it is ours to carry on: what the process sees of itself, and
// of Docker's description the names, the mounts of the machine, and nothing else.
type Self struct {
	ID, Name    string
	Image       string // its id
	ImageName   string // the name that it was made from
	Restart     string // Docker's policy
	Labels      map[string]string
	Binds       []string // as in Box
	HostNetwork bool
	Passing     bool // Docker removes it when it ends

	UID, GID int
	Groups   []int
	Program  string   // where this program lies in it
	Args     []string // with which the node was started
	Environ  []string
	Keep     []string // names of variables that are carried on beside the usual ones
	Devices  []string // those that are there
	Needs    []string // paths that must be mounts of the machine
	Grace    time.Duration
}

// Check says why a container cannot be replaced.
func (s Self) Check() error {
	switch {
	case s.Passing:
		return fmt.Errorf("%w: %s was started with --rm, so that it would be gone when it is stopped, and with it the way back: start it without", ErrRefused, s.Name)
	case !s.HostNetwork:
		return fmt.Errorf("%w: %s has a network of its own: start it with --network host", ErrRefused, s.Name)
	case s.ID == "" || s.Name == "" || s.Image == "":
		return fmt.Errorf("%w: Docker does not tell which container this is", ErrRefused)
	case len(s.Args) == 0 || s.Args[0] != "serve":
		return fmt.Errorf("%w: the node in %s was not started by 'viiwork serve' but with %q", ErrRefused, s.Name, s.Args)
	}
	for _, path := range s.Needs {
		if !s.mounted(path) {
			return fmt.Errorf("%w: %s is in the container %s alone, and would not be in the next one: mount it, -v %s:%s", ErrRefused, path, s.Name, path, path)
		}
	}
	return nil
}

func (s Self) mounted(path string) bool {
	return slices.ContainsFunc(s.Binds, func(b string) bool {
		half, _ := strings.CutSuffix(b, ":ro")
		_, at, _ := strings.Cut(half, ":")
		rest, err := filepath.Rel(at, path)
		return err == nil && rest != ".." && !strings.HasPrefix(rest, "../")
	})
}

// node is the container that comes in the place of this one.
func (s Self) node(plan, image string) Box {
	labels := map[string]string{labelPlan: plan, labelRole: nodeRole}
	for name, value := range s.Labels {
		if strings.HasPrefix(name, compose) { // or 'docker compose' would take it for a stranger's
			labels[name] = value
		}
	}
	if _, ok := labels[compose+"image"]; ok {
		labels[compose+"image"] = image
	}
	b := s.like(image)
	b.Name, b.Args, b.Labels, b.Devices = s.Name, s.Args, labels, s.Devices
	b.Restart = s.Restart
	if b.Restart == "no" {
		b.Restart = ""
	}
	return b
}

// helper is the container that puts it there, of this one's own image.
func (s Self) helper(plan, stateDir string) Box {
	b := s.like(s.Image)
	b.Name, b.Entrypoint, b.Args = s.Name+helperEnd, []string{s.Program}, []string{"update", "swap", "--state", stateDir}
	b.Labels = map[string]string{labelPlan: plan, labelRole: aideRole}
	b.Restart = "on-failure" // it fails when it is told to end before it is done
	b.Env = slices.DeleteFunc(b.Env, func(e string) bool { return !strings.HasPrefix(e, "DOCKER_") && !strings.HasPrefix(e, "TZ=") })
	return b
}

// like is what both have of this one.
func (s Self) like(image string) Box {
	b := Box{Image: image, User: strconv.Itoa(s.UID) + ":" + strconv.Itoa(s.GID), Env: s.env(), Binds: s.Binds, Grace: s.Grace}
	for _, g := range s.Groups {
		if g != s.GID {
			b.Groups = append(b.Groups, strconv.Itoa(g))
		}
	}
	return b
}

// usual are variables that this program and its libraries read beside its own.
var usual = []string{
	"TZ", "NO_COLOR", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "TS_AUTHKEY", "SSL_CERT_FILE", "SSL_CERT_DIR", "DOCKER_HOST", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// env carries on what is the owner's word. PATH and the like are the image's.
func (s Self) env() []string {
	var env []string
	for _, entry := range s.Environ {
		name, _, ok := strings.Cut(entry, "=")
		if ok && (strings.HasPrefix(name, "VIIWORK_") || slices.Contains(usual, name) || slices.Contains(s.Keep, name)) {
			env = append(env, entry)
		}
	}
	slices.Sort(env)
	return env
}

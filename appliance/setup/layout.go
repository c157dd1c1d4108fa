package setup

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"syscall"

	"viiwork/appliance/config"
)

// Manager is what starts the node with the machine.
type Manager string

const (
	Systemd Manager = "systemd" // the system's, or with Machine.User that of a login
	Launchd Manager = "launchd" // an agent of the user who is logged in
	Compose Manager = "compose" // the node itself is a container
	ByHand  Manager = ""        // nothing: somebody runs 'viiwork serve'
)

// Machine is what the files are written for.
type Machine struct {
	Root    string  // put before every path that is read or written; "" = /
	Manager Manager // what starts the node
	User    bool    // files in one user's home instead of the whole machine's
	Home    string  // of that user

	Program string // this program, copied to where the service runs it; "" = it is there already
	Version string // of that program

	UID, GID  int  // Compose: who the node and its engines are
	DockerGID int  // Compose: the group of Docker's socket
	AMD       bool // Compose: the node is given the devices of AMD cards
}

// Layout is where things lie on a Machine.
type Layout struct {
	Config   string // viiwork.yaml
	Env      string // secrets, beside it
	Service  string // the unit, agent or compose file; "" = ByHand
	Prefix   string // programs lie in <Prefix>/versions
	StateDir string // node.state_dir unless the owner wants another
}

// Layout answers where things lie by convention. Paths are without Root.
func (m Machine) Layout() Layout {
	if !m.User {
		l := Layout{Config: "/etc/viiwork/viiwork.yaml", Prefix: "/opt/viiwork", StateDir: "/var/lib/viiwork"}
		l.Env = besides(l.Config)
		switch m.Manager {
		case Systemd:
			l.Service = "/etc/systemd/system/viiwork.service"
		case Compose:
			l.Service = "/etc/viiwork/compose.yaml"
		}
		return l
	}
	home := func(parts ...string) string { return filepath.Join(append([]string{m.Home}, parts...)...) }
	l := Layout{
		Config:   home(".config/viiwork/viiwork.yaml"),
		Prefix:   home(".local/share/viiwork"),
		StateDir: home(".local/state/viiwork"),
	}
	l.Env = besides(l.Config)
	switch m.Manager {
	case Systemd:
		l.Service = home(".config/systemd/user/viiwork.service")
	case Launchd:
		l.Service = home("Library/LaunchAgents/" + AgentLabel + ".plist")
	case Compose:
		l.Service = home(".config/viiwork/compose.yaml")
	}
	return l
}

// besides is where the secrets of a configuration lie.
func besides(path string) string { return filepath.Join(filepath.Dir(path), config.BesideName) }

// Program is the path by which the service runs the node: a link that an update turns to the next version.
func (l Layout) Program() string { return filepath.Join(l.Prefix, "versions", "current", "viiwork") }

// Judge is the path of the version before, which decides about the one that is on trial.
func (l Layout) Judge() string { return filepath.Join(l.Prefix, "versions", "previous", "viiwork") }

var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// versionFolder is the name of a version's own folder.
func versionFolder(version string) string {
	version = unfit.ReplaceAllString(version, "-")
	if version == "" || version == "current" || version == "previous" || version[0] == '.' {
		return "unknown"
	}
	return version
}

// ThisMachine looks at what this process runs on: as root files are the machine's, else the user's own.
func ThisMachine(root, version string) (Machine, error) {
	m := Machine{Root: root, User: os.Getuid() != 0, UID: os.Getuid(), GID: os.Getgid(), Version: version}
	if runtime.GOOS == "darwin" {
		m.User = true // cards and the key chain are those of who is logged in
	}
	me, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err == nil {
		m.Home = me.HomeDir
	} else if m.Home, err = os.UserHomeDir(); err != nil && m.User {
		return m, fmt.Errorf("finding this user's home: %w: set HOME", err)
	}
	if m.Program, err = os.Executable(); err != nil {
		return m, fmt.Errorf("finding this program: %w", err)
	}
	m.Manager = m.manager()
	m.AMD = m.there("/dev/kfd")
	if info, err := os.Stat(m.at("/var/run/docker.sock")); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			m.DockerGID = int(stat.Gid)
		}
	}
	return m, nil
}

// manager finds what starts services here. systemd runs where it says so, not where its programs lie: they lie in many a
// container in which nothing starts anything.
func (m Machine) manager() Manager {
	switch {
	case runtime.GOOS == "darwin":
		return Launchd
	case m.there("/run/systemd/system") && (!m.User || m.there(fmt.Sprintf("/run/user/%d/systemd", m.UID))):
		return Systemd
	}
	return ByHand
}

// at is a path below Root.
func (m Machine) at(path string) string { return filepath.Join("/", m.Root, path) }

func (m Machine) there(path string) bool {
	_, err := os.Stat(m.at(path))
	return err == nil
}

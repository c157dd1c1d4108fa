package setup

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"viiwork/appliance/config"
)

// Answers is what the owner decided.
type Answers struct {
	Config     config.Config // built on config.Default; its secrets go to the file of secrets
	Secret     config.Secret // the mesh's; nil in an open mesh
	ConfigPath string        // where viiwork.yaml goes; "" = where Layout says
	Image      string        // Compose: the node's own image, best by digest
	Variables  []byte        // what the file of secrets says so far: what is none of ours stays in it
}

// Files makes every file of a node out of what is known of the machine and what was decided, in the order in which they
// are to be written: what others need comes first, what starts the node last. Notes are for the owner.
func Files(m Machine, a Answers) (files []File, notes []string) {
	l := m.Layout()
	if a.ConfigPath != "" {
		l.Config, l.Env = a.ConfigPath, besides(a.ConfigPath)
	}
	cfg := a.Config
	files = append(files, folder(filepath.Dir(l.Config), 0o755), m.owned(folder(cfg.Node.StateDir, 0o700)))
	if env := environment(a); len(env) > 0 {
		files = append(files, File{Path: l.Env, Mode: 0o600, Content: env, Secret: true})
	}
	if m.Manager != Compose && m.Manager != ByHand {
		files = append(files, m.program(l)...)
		files = append(files, m.onPath(l)...)
	}
	files = append(files, File{Path: l.Config, Mode: 0o644, Content: cfg.Text(configHead)})
	switch m.Manager {
	case Systemd:
		files = append(files, File{Path: l.Service, Mode: 0o644, Content: m.unit(l, cfg)})
	case Launchd:
		files = append(files, folder(filepath.Join(m.Home, "Library/Logs"), 0o755), File{Path: l.Service, Mode: 0o644, Content: m.agent(l)})
	case Compose:
		files = append(files, File{Path: l.Service, Mode: 0o644, Content: m.compose(l, a)})
	}
	return files, m.notes(l, a)
}

const configHead = marker + ": one machine's part of the mesh. docs/config.md has every key.\n" +
	"Check an edit with 'viiwork config validate'; a running node takes it on SIGHUP."

func folder(path string, mode fs.FileMode) File { return File{Path: path, Mode: fs.ModeDir | mode} }

// owned gives a file to who the node runs as.
func (m Machine) owned(f File) File {
	if m.Manager == Compose {
		f.UID, f.GID = m.UID, m.GID
	}
	return f
}

// environment is the file of secrets: read by the node beside viiwork.yaml, and by whatever starts it.
func environment(a Answers) []byte {
	var out strings.Builder
	if len(a.Secret) > 0 {
		fmt.Fprintf(&out, "%s=%s\n", a.Config.Mesh.SecretEnv, base64.StdEncoding.EncodeToString(a.Secret))
	}
	if key := a.Config.Mesh.Tailnet.AuthKey; key != "" {
		fmt.Fprintf(&out, "VIIWORK_MESH_TAILNET_AUTH_KEY=%s\n", key)
	}
	for line := range strings.Lines(string(a.Variables)) {
		if line = strings.TrimSpace(line); a.keeps(line) {
			out.WriteString(line + "\n")
		}
	}
	if out.Len() == 0 && len(a.Variables) == 0 {
		return nil
	}
	return []byte("# " + marker + ": the node's secrets. Whoever has the mesh's secret can join it.\n" + out.String())
}

// keeps tells that a line of the file of secrets stays. A secret left behind in an open mesh would keep the node from
// starting.
func (a Answers) keeps(line string) bool {
	name, _, ok := strings.Cut(line, "=")
	name = strings.TrimSuffix(name, "_FILE")
	own := name == a.Config.Mesh.SecretEnv || name == "VIIWORK_MESH_TAILNET_AUTH_KEY" || len(a.Secret) == 0 && name == a.Config.Mesh.SecretPrevEnv
	return ok && line[0] != '#' && line[0] != ';' && !own
}

// program puts this program where the service runs it, under its version's name, so that an update can stand beside it.
func (m Machine) program(l Layout) []File {
	versions := filepath.Join(l.Prefix, "versions")
	version := versionFolder(m.Version)
	if m.Program == "" || m.Program == filepath.Join(versions, version, "viiwork") {
		return nil
	}
	files := []File{
		folder(filepath.Join(versions, version), 0o755),
		{Path: filepath.Join(versions, version, "viiwork"), Mode: 0o755, From: m.Program},
	}
	previous := filepath.Join(versions, "previous")
	if _, err := os.Lstat(m.at(previous)); err != nil { // the first one stands for itself, so that what starts the node finds one
		files = append(files, File{Path: previous, Link: version})
	}
	return append(files, File{Path: filepath.Join(versions, "current"), Link: version})
}

// command is where a shell finds the program.
const command = "/usr/local/bin/viiwork"

// onPath lets a shell find the program that the service runs, whichever version that is. What stands there already is its
// owner's, and a folder that is missing or cannot be written to is left as it is: the node does without.
func (m Machine) onPath(l Layout) []File {
	dir := m.at(filepath.Dir(command))
	if at, err := os.Stat(dir); m.User || m.Program == "" || err != nil || !at.IsDir() || unix.Access(dir, unix.W_OK) != nil {
		return nil
	}
	if _, err := os.Lstat(m.at(command)); err == nil && !m.onPathIsOurs() {
		return nil
	}
	return []File{{Path: command, Link: l.Program()}}
}

// onPathIsOurs tells whether the command is the link to what the service runs.
func (m Machine) onPathIsOurs() bool {
	to, err := os.Readlink(m.at(command))
	return err == nil && to == m.Layout().Program()
}

func (m Machine) notes(l Layout, a Answers) []string {
	var notes []string
	switch m.Manager {
	case ByHand:
		notes = append(notes, "nothing here starts services: run "+m.Start(a.ConfigPath))
	case Systemd:
		if m.User {
			notes = append(notes, "the service ends when you log out, unless 'loginctl enable-linger' was run for you")
		}
	case Compose:
		if !strings.Contains(a.Image, "@sha256:") {
			notes = append(notes, a.Image+" is an image of this machine, not one named by its digest: build it before the node is started")
		}
	}
	if _, err := os.Lstat(m.at(command)); err == nil && m.Manager == Systemd && !m.User && !m.onPathIsOurs() {
		notes = append(notes, fmt.Sprintf("%s is another file than what the service runs, and stays: an update does not change it; 'ln -sfn %s %s' puts that in its place", command, l.Program(), command))
	}
	if m.User || a.ConfigPath != "" {
		notes = append(notes, "the commands find the node by 'viiwork --config "+l.Config+"', or with VIIWORK_CONFIG set to that path")
	}
	return notes
}

// Start is the command that runs the node in the foreground.
func (m Machine) Start(configPath string) string {
	if configPath == "" {
		configPath = m.Layout().Config
	}
	program := m.Layout().Program()
	if m.Manager == ByHand || m.Manager == Compose {
		program = "viiwork"
	}
	return fmt.Sprintf("'%s serve --config %s'", program, configPath)
}

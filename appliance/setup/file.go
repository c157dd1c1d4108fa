package setup

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// marker stands in the first lines of every file that viiwork writes for the machine, and says that it may be replaced
// and removed by viiwork.
const marker = "Written by viiwork"

// File is one thing to be put on disk: a file with its content, a folder (fs.ModeDir in Mode), a copy or a link.
type File struct {
	Path     string // absolute
	Mode     fs.FileMode
	Content  []byte
	Secret   bool   // holds secrets: shown masked
	From     string // a file to copy; Content is empty then
	Link     string // what a symbolic link leads to; Content is empty and Mode counts for nothing
	UID, GID int    // owner, set where this process may; 0, 0 = whoever runs it
}

// IsDir reports whether it is a folder.
func (f File) IsDir() bool { return f.Mode.IsDir() }

// As is the file with the mode and the owner that what stands at path has; unchanged where there is nothing.
func (f File) As(path string) File {
	info, err := os.Stat(path)
	if err != nil {
		return f
	}
	f.Mode = info.Mode().Perm()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		f.UID, f.GID = int(stat.Uid), int(stat.Gid)
	}
	return f
}

// Shown is the content as an owner may see it.
func (f File) Shown() string {
	switch {
	case f.Link != "":
		return "(a link to " + f.Link + ")\n"
	case f.From != "":
		return "(a copy of " + f.From + ")\n"
	case f.IsDir():
		return "(a folder)\n"
	case f.Secret:
		return mask(string(f.Content))
	}
	return hideSecrets(string(f.Content))
}

const masked = "********"

var assignment = regexp.MustCompile(`(?m)^([A-Z_][A-Z0-9_]*=).+$`)

// secretValue finds what stands behind a name that says it is a secret, in YAML, JSON, TOML or a file of variables. A
// name that goes on after the word, such as secret_env or max_tokens, means something else.
var secretValue = regexp.MustCompile(`(?im)((?:^|[{,])[-+#; \t]*(?:export[ \t]+)?["']?[a-z0-9_.-]*(?:key|token|secret|password|passwd|passphrase|authorization|credentials?)["']?[ \t]*[:=][ \t]*)("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"'{\[,}#][^,}#\n]*)`)

// hideSecrets hides values of secrets in a text to be shown, such as a configuration of version 1 or a client's file with
// the keys of its other providers.
func hideSecrets(text string) string {
	return secretValue.ReplaceAllString(text, "${1}"+masked)
}

// mask hides the values of a file of variables. What is no such file is hidden whole.
func mask(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
			out.WriteString(line)
		case assignment.MatchString(line):
			out.WriteString(assignment.ReplaceAllString(line, "${1}"+masked))
		default:
			out.WriteString(masked + "\n")
		}
	}
	return out.String()
}

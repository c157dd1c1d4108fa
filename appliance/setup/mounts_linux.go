package setup

import (
	"os"
	"strconv"
	"strings"
)

// mountsBelow are the places below a folder at which something is mounted. Devices alone would not tell: a folder of the same disk
// can be mounted there. The folder's own path has no links in it.
func mountsBelow(dir string) ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 {
			if at := unescaped(f[4]); strings.HasPrefix(at, dir+"/") {
				found = append(found, at)
			}
		}
	}
	return found, nil
}

// unescaped is a path as the kernel writes it there: blanks, ends of lines and backslashes as three octal digits.
func unescaped(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+4 <= len(path) {
			if n, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(path[i])
	}
	return out.String()
}

package gpu

import (
	"io"
	"os"
	"strconv"
	"strings"
)

const fileLimit = 64 << 10 // bytes read of any file; the real ones are a few hundred

// readText returns "" for what cannot be read: absent and unreadable are both unknown.
func readText(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileLimit))
	if err != nil {
		return ""
	}
	return string(text)
}

func readLine(path string) string {
	line, _, _ := strings.Cut(readText(path), "\n")
	return strings.TrimSpace(line)
}

// readNumber reads a file that holds one whole number; nil for any other.
func readNumber(path string) *int64 {
	n, err := strconv.ParseInt(readLine(path), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// readScaled reads a number in small units, as the kernel gives them.
func readScaled(path string, unit float64, as func(float64) *float64) *float64 {
	n := readNumber(path)
	if n == nil {
		return nil
	}
	return as(float64(*n) / unit)
}

const memoryMax = 1 << 50 // bytes; what claims more is no figure

// memField reads a figure in bytes out of /proc/meminfo.
func memField(text, name string) *int64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != name || fields[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 && n <= memoryMax>>10 {
			n <<= 10
			return &n
		}
		return nil
	}
	return nil
}

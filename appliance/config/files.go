package config

import (
	"errors"
	"os"
)

// CheckFiles looks whether the models' files are there and readable. It is apart from Load because a file may be on
// a disk that is mounted later, and because one missing file does not make the rest of the configuration wrong.
func (c *Config) CheckFiles() Faults {
	list := &faultList{}
	for i, m := range c.Models {
		if m.Llamacpp.Runner == runnerExternal || m.Path == "" {
			continue
		}
		if problem := checkFile(m.Path); problem != "" {
			list.add(c.Fault(item("models", i)+".path", "%s %s", quotePath(m.Path), problem))
		}
	}
	list.faults.sort()
	return list.faults
}

// checkFile says what is wrong with a model file, "" when nothing is.
func checkFile(path string) string {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "does not exist: download it, or correct path or models_dir"
	case errors.Is(err, os.ErrPermission):
		return "cannot be reached: let this user enter its folders"
	case err != nil:
		return "cannot be looked at: " + reason(err)
	case st.IsDir():
		return "is a directory: name the GGUF file in it (of several shards the first)"
	case !st.Mode().IsRegular():
		return "is not a file: name a GGUF file"
	case st.Size() == 0:
		return "is empty: download it again"
	}
	f, err := os.Open(path)
	if err != nil {
		return "cannot be read (" + reason(err) + "): let this user read it"
	}
	f.Close()
	return ""
}

// reason is the system's word without the path that stands before it anyway.
func reason(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func quotePath(path string) string {
	if len(path) > 200 || hasControl(path) {
		return quote(path)
	}
	return path
}

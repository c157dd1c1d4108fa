package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"viiwork/appliance/config"
	"viiwork/engine"
	"viiwork/engine/gguf"
	"viiwork/engine/llama"
)

// roomWanted is what the state directory should have left: logs, slot files and some growth.
const roomWanted = 2 << 30

func checkConfig(cfg *config.Config, env Probe) Check {
	const id = "config"
	var faults config.Faults
	switch {
	case errors.As(env.ConfigErr, &faults):
		return fault(Fail, id, [3]string{
			fmt.Sprintf("%s cannot be used as it is", env.ConfigPath), faults.Error(), "mend the named lines, then 'viiwork config validate'"})
	case env.ConfigErr != nil:
		return fault(Fail, id, [3]string{"there is no configuration to read", env.ConfigErr.Error(), "set this machine up with 'viiwork init', or name your viiwork.yaml with --config"})
	case cfg == nil:
		return fault(Fail, id, [3]string{"there is no configuration", "none was given", "set this machine up with 'viiwork init', or name your viiwork.yaml with --config"})
	}
	if warnings := cfg.Warnings(); len(warnings) > 0 {
		return fault(Warn, id, [3]string{env.ConfigPath + " is valid, with a doubt", strings.Join(warnings, "\n"), "see docs/config.md for the names there are"})
	}
	return ok(id, env.ConfigPath+" is valid")
}

// checkStateDir makes the test that matters, a file written and removed, in the directory or in the one that serve
// would make it in.
func checkStateDir(cfg *config.Config, env Probe) Check {
	const id = "state_dir"
	dir := cfg.Node.StateDir
	at := existing(dir)
	stat, err := os.Stat(at)
	if err == nil && !stat.IsDir() {
		return fault(Fail, id, [3]string{dir + " cannot be used", at + " is a file", "set node.state_dir to a directory"})
	}
	probe, err := os.CreateTemp(at, ".viiwork-doctor-*")
	if err != nil {
		return fault(Fail, id, [3]string{dir + " is not writable", err.Error(),
			fmt.Sprintf("'sudo install -d -o %d -m 700 %s', or set node.state_dir to a place of yours", os.Getuid(), dir)})
	}
	probe.Close()
	os.Remove(probe.Name())
	free, err := env.Free(at)
	if err != nil {
		return fault(Warn, id, [3]string{dir + " is writable, its free space unknown", err.Error(), "look with 'df " + at + "'"})
	}
	if free < roomWanted {
		return fault(Warn, id, [3]string{fmt.Sprintf("%s is writable but nearly full", dir),
			fmt.Sprintf("%s left, %s wanted", bytesWord(free), bytesWord(roomWanted)), "make room on that disk, or move node.state_dir"})
	}
	return ok(id, fmt.Sprintf("%s is writable, %s left", dir, bytesWord(free)))
}

func checkModelsDir(cfg *config.Config) Check {
	const id = "models_dir"
	needed := false
	for _, m := range cfg.Models {
		needed = needed || m.Path != "" && strings.HasPrefix(m.Path, cfg.ModelsDir)
	}
	if !needed {
		return skip(id, "no model file is kept there")
	}
	if _, err := os.ReadDir(cfg.ModelsDir); err != nil {
		return fault(Fail, id, [3]string{cfg.ModelsDir + " cannot be read", err.Error(), "set models_dir, or let this user read it"})
	}
	return ok(id, cfg.ModelsDir+" can be read")
}

// checkModelFiles reads each file's header and compares what it promises with what is there: a download cut short is
// the commonest reason for an engine that will not start.
func checkModelFiles(cfg *config.Config) []Check {
	var checks []Check
	for i, m := range cfg.Models {
		if m.Llamacpp.Runner == "external" {
			continue
		}
		id := "model:" + m.Name
		file, err := gguf.Read(m.Path)
		if err != nil {
			at := cfg.Fault(fmt.Sprintf("models[%d].path", i), "%s", err.Error())
			checks = append(checks, fault(Fail, id, [3]string{m.Name + " cannot be served", at.Error(), "download the file again, or correct the path"}))
			continue
		}
		asked := engine.Model{Args: m.Args, Env: m.Env}
		if err := llama.CheckPooling(asked, file.Embedding || file.Rerank || file.Architecture == ""); err != nil {
			at := cfg.Fault(fmt.Sprintf("models[%d].args", i), "%s", err.Error())
			checks = append(checks, fault(Fail, id, [3]string{m.Name + " cannot be served", at.Error(), "mend its args"}))
			continue
		}
		if file.Context > 0 && m.Context > file.Context {
			checks = append(checks, fault(Warn, id, [3]string{
				fmt.Sprintf("%s is asked for more context than it was trained with", m.Name),
				fmt.Sprintf("context is %d a slot, the model's own is %d", m.Context, file.Context), "lower its context"}))
			continue
		}
		checks = append(checks, ok(id, strings.TrimSpace(fmt.Sprintf("%s is whole: %s %s", filepath.Base(m.Path), bytesWord(file.Size), file.Architecture))))
	}
	return checks
}

// bytesWord is a size for people.
func bytesWord(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

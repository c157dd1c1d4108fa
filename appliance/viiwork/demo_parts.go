package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"viiwork/engine"
	"viiwork/engine/docker"
	"viiwork/engine/enginetest"
	"viiwork/engine/gguf"
	"viiwork/engine/native"
)

// demoImage is what images/cpu/import.sh makes.
const demoImage = "viiwork-engine:cpu"

// demoEngine is an engine in the words of the configuration, and in words for people.
type demoEngine struct{ runner, key, value, text string }

// findEngine takes the first engine that can be had. One that was named is taken or refused, never passed over.
func (c *cli) findEngine(ctx context.Context, named string) (demoEngine, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	from := "--engine"
	if named == "" {
		named, from = c.getenv("VIIWORK_ENGINE"), "VIIWORK_ENGINE"
	}
	if named != "" {
		found, err := probeProgram(ctx, named)
		if err != nil {
			return demoEngine{}, fmt.Errorf("trying the engine of %s: %w", from, err)
		}
		return found, nil
	}
	found, dockerErr := probeImage(ctx)
	if dockerErr == nil {
		return found, nil
	}
	if found, err := probeProgram(ctx, "llama-server"); err == nil {
		return found, nil
	}
	return demoEngine{}, fmt.Errorf("no engine found: no llama-server on PATH, and Docker: %w; "+
		"to get one: 'make run' in viiwork's source tree, or install llama.cpp, or name one with --engine", dockerErr)
}

func probeImage(ctx context.Context) (demoEngine, error) {
	runner := docker.New(docker.Config{Node: "demo", StateDir: os.TempDir(), UID: os.Getuid(), GID: os.Getgid()})
	defer runner.Close()
	text, err := runner.Probe(ctx, engine.Model{Runner: engine.RunnerDocker, Image: demoImage}, "--version")
	if err != nil {
		return demoEngine{}, err
	}
	return demoEngine{"docker", "image", demoImage, fmt.Sprintf("Docker image %s, %s", demoImage, versionLine(text))}, nil
}

func probeProgram(ctx context.Context, program string) (demoEngine, error) {
	if strings.ContainsRune(program, filepath.Separator) {
		absolute, err := filepath.Abs(program)
		if err != nil {
			return demoEngine{}, err
		}
		program = absolute
	}
	runner := native.New(native.Config{Node: "demo", StateDir: os.TempDir()})
	text, err := runner.Probe(ctx, engine.Model{Runner: engine.RunnerNative, Binary: program}, "--version")
	if err != nil {
		return demoEngine{}, err
	}
	return demoEngine{"native", "binary", program, fmt.Sprintf("%s, %s", program, versionLine(text))}, nil
}

// versionLine picks the one line that matters out of what a program printed for --version.
func versionLine(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "version:") {
			return printable(strings.TrimSpace(line))
		}
	}
	return "version unknown"
}

type demoModel struct {
	path, text string
	context    int
}

// demoContext is enough for a chat and small enough for any machine's memory.
const demoContext = 8192

// findModel takes the model that was named, or writes the tiny one into dir.
func (c *cli) findModel(named, dir string) (demoModel, error) {
	if named == "" {
		named = c.getenv("VIIWORK_DEMO_MODEL")
	}
	if named == "" {
		path := filepath.Join(dir, "tiny.gguf")
		if err := enginetest.WriteGGUF(path, enginetest.GGUFOptions{}); err != nil {
			return demoModel{}, fmt.Errorf("writing a tiny model: %w: choose another place with --dir", err)
		}
		return demoModel{path, "a tiny one with random weights: its answers are random letters (a real one: --model FILE.gguf)", demoContext}, nil
	}
	path, err := filepath.Abs(named)
	if err != nil {
		return demoModel{}, err
	}
	file, err := gguf.Read(path)
	if err != nil {
		return demoModel{}, err
	}
	context := demoContext
	if file.Context > 0 {
		context = min(context, file.Context)
	}
	return demoModel{path, path, context}, nil
}

package wizard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"viiwork/appliance/config"
	"viiwork/appliance/mesh"
)

// Answers is what an owner says of a machine. What is empty is decided by what the machine shows.
type Answers struct {
	Node      NodeAnswers   `key:"node"`
	API       APIAnswers    `key:"api"`
	ModelsDir string        `key:"models_dir"` // "" = /srv/models
	Models    []ModelAnswer `key:"models"`     // none = a node that runs nothing itself
	Engine    EngineAnswers `key:"engine"`
	Mesh      MeshAnswers   `key:"mesh"`
	Service   string        `key:"service"` // systemd, launchd, compose or none; "" = what this machine has

	places config.Places
	chosen bool // of Models: said, if only that there are none
}

// NodeAnswers is about this machine itself.
type NodeAnswers struct {
	Name     string `key:"name"`      // "" = the host's name
	StateDir string `key:"state_dir"` // "" = the configuration's default
}

// APIAnswers is where requests come in.
type APIAnswers struct {
	Port  int    `key:"port"` // 0 = 8086
	Host  string `key:"host"` // lan only
	Local string `key:"local"`
}

// ModelAnswer is one file to serve. A layout that is left open, or a part of it, is worked out.
type ModelAnswer struct {
	File           string   `key:"file"` // below models_dir, or absolute; of several shards the first
	Name           string   `key:"name"` // "" = made of the file's
	GPUs           []int    `key:"gpus"`
	GPUsPerBackend int      `key:"gpus_per_backend"`
	Context        int      `key:"context"` // tokens per slot
	Parallel       int      `key:"parallel"`
	Args           []string `key:"args"`
}

// EngineAnswers says what runs the models.
type EngineAnswers struct {
	Runner string `key:"runner"` // docker or native; "" = docker, on a Mac native
	Image  string `key:"image"`  // "" = by the cards
	Binary string `key:"binary"`
}

// MeshAnswers says which mesh this machine becomes a member of: one that Join leads to, or one that it starts.
type MeshAnswers struct {
	Join       string   `key:"join,secret"` // a join code
	JoinFile   string   `key:"join_file"`   // a file with one
	Start      string   `key:"start"`       // secured or open
	Network    string   `key:"network"`     // of a mesh that is started: tailnet or lan
	BindPort   int      `key:"bind_port"`
	Seeds      []string `key:"seeds"`
	MDNS       string   `key:"mdns"` // lan: yes or no; "" = yes
	Hostname   string   `key:"hostname"`
	AuthKey    string   `key:"auth_key,secret"` // a key, or file:PATH of one; used once and kept nowhere
	ControlURL string   `key:"control_url"`
	Tags       []string `key:"tags"`

	read *mesh.JoinCode // of JoinFile, which may be a pipe: it is read once
}

// maxAnswers is far above any file of answers.
const maxAnswers = 1 << 20

// LoadAnswers reads the file at path; what is wrong in it is a [config.Faults].
func LoadAnswers(path string) (Answers, error) {
	f, err := os.Open(path)
	if err != nil {
		return Answers{}, fmt.Errorf("reading the answers: %w: name a file that this user may read", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAnswers+1))
	if err != nil {
		return Answers{}, fmt.Errorf("reading the answers: %w", err)
	}
	return ParseAnswers(path, data)
}

// ParseAnswers is LoadAnswers with the file's bytes in hand.
func ParseAnswers(name string, data []byte) (Answers, error) {
	var a Answers
	places, err := config.Decode(name, data, &a)
	if err != nil {
		return Answers{}, err
	}
	a.places, a.chosen = places, places.IsSet("models")
	if faults := a.check(); len(faults) > 0 {
		return Answers{}, faults
	}
	return a, nil
}

// check names what no machine could make sense of. What only the configuration knows to be wrong is found in the draft.
func (a *Answers) check() (faults config.Faults) {
	fault := func(key, format string, args ...any) {
		faults = append(faults, a.places.Fault(key, format, args...))
	}
	word := func(key, value string, allowed ...string) {
		for _, w := range allowed {
			if value == "" || value == w {
				return
			}
		}
		fault(key, "there is no %q here: write %s", value, strings.Join(allowed, " or "))
	}
	for i, m := range a.Models {
		if m.File == "" {
			fault(fmt.Sprintf("models[%d]", i), "an entry needs a file: name the GGUF file, of several shards the first")
		}
	}
	word("engine.runner", a.Engine.Runner, "docker", "native")
	word("mesh.start", a.Mesh.Start, startSecured, startOpen)
	word("mesh.network", a.Mesh.Network, "tailnet", "lan")
	word("mesh.mdns", a.Mesh.MDNS, "yes", "no", "true", "false")
	word("service", a.Service, serviceSystemd, serviceLaunchd, serviceCompose, serviceNone)
	joins := 0
	for _, way := range []string{a.Mesh.Join, a.Mesh.JoinFile, a.Mesh.Start} {
		if way != "" {
			joins++
		}
	}
	if joins > 1 {
		fault("mesh", "one of join, join_file and start is enough: remove the others")
	}
	code, err := a.Mesh.code()
	if a.Mesh.read = code; err != nil {
		key := "mesh.join"
		if a.Mesh.JoinFile != "" {
			key = "mesh.join_file"
		}
		fault(key, "%v", err)
	}
	return faults
}

// What a mesh that is started can be, and what runs the node.
const (
	startSecured = "secured"
	startOpen    = "open"

	serviceSystemd = "systemd"
	serviceLaunchd = "launchd"
	serviceCompose = "compose"
	serviceNone    = "none"
)

// missing is what a file of answers must say and nobody can guess.
func (a *Answers) missing() (faults config.Faults) {
	if !a.chosen {
		faults = append(faults, a.places.Fault("models", "which models? list their files, or write models: [] for a node that runs none itself"))
	}
	if a.Mesh.Join == "" && a.Mesh.JoinFile == "" && a.Mesh.Start == "" {
		faults = append(faults, a.places.Fault("mesh", "which mesh? give join_file (a file with a join code), or start: secured or start: open for a new one"))
	}
	return faults
}

// code is the join code, nil without one.
func (m *MeshAnswers) code() (*mesh.JoinCode, error) {
	if m.read != nil && m.JoinFile != "" {
		return m.read, nil
	}
	text := m.Join
	if m.JoinFile != "" {
		f, err := os.Open(m.JoinFile)
		if err != nil {
			return nil, fmt.Errorf("%w: name a file with a join code that this user may read", err)
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, 8<<10))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", m.JoinFile, err)
		}
		if text = strings.TrimSpace(string(data)); text == "" {
			return nil, errors.New("the file is empty: put the code in it that 'viiwork join-code' prints on a member")
		}
	}
	if text == "" {
		return nil, nil
	}
	code, err := mesh.ParseJoinCode(text)
	if err != nil {
		return nil, err
	}
	return &code, nil
}

package connect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Clients lists those that are known.
func Clients() []string { return []string{"opencode", "codex", "claude", "openai"} }

// Model is one that the mesh serves, or an alias.
type Model struct {
	ID      string
	Context int // tokens of one slot; 0 = unknown
}

// Mesh is what clients are connected to.
type Mesh struct {
	URL    string // http://127.0.0.1:8086, without a path
	Models []Model
}

// Settings is what one client is told.
type Settings struct {
	Client  string   `json:"client"`
	BaseURL string   `json:"base_url"`
	Model   string   `json:"model"`
	Context int      `json:"context"` // 0 = unknown
	Output  int      `json:"output"`  // tokens an answer may take of it; 0 = unknown
	File    string   `json:"file"`    // the client's own; "" = it is told by its environment
	Text    string   `json:"text"`    // what to put there, or into a shell
	Notes   []string `json:"notes"`

	edit func(old []byte) ([]byte, error)
}

// Edit puts the settings into the client's file as it is now; old is empty where there is none.
func (s Settings) Edit(old []byte) ([]byte, error) {
	if s.edit == nil {
		return nil, fmt.Errorf("%s has no file of its own: put the lines into your shell's profile", s.Client)
	}
	text, err := s.edit(old)
	if err != nil {
		return nil, fmt.Errorf("editing %s: %w", s.File, err)
	}
	return text, nil
}

// For makes the settings of a client. Without a model it is the one that holds most; getenv tells where clients keep their
// files.
func For(client string, mesh Mesh, model string, getenv func(string) string) (Settings, error) {
	chosen, err := choose(mesh.Models, model)
	if err != nil {
		return Settings{}, err
	}
	s := Settings{Client: client, BaseURL: strings.TrimSuffix(mesh.URL, "/"), Model: chosen.ID, Context: chosen.Context, Output: output(chosen.Context), Notes: []string{}}
	if chosen.Context == 0 {
		s.Notes = append(s.Notes, "the context of "+chosen.ID+" is not known yet: run this again once it is ready")
	}
	home := func(variable, folder string) string {
		if dir := getenv(variable); dir != "" {
			return dir
		}
		return filepath.Join(getenv("HOME"), folder)
	}
	switch client {
	case "opencode":
		s.opencode(mesh, filepath.Join(home("XDG_CONFIG_HOME", ".config"), "opencode", "opencode.json"))
		if file := getenv("OPENCODE_CONFIG"); file != "" {
			s.File = file
		}
	case "codex":
		s.codex(filepath.Join(home("CODEX_HOME", ".codex"), "config.toml"))
	case "claude":
		s.claude(filepath.Join(home("CLAUDE_CONFIG_DIR", ".claude"), "settings.json"))
	case "openai":
		s.openai()
	default:
		return Settings{}, fmt.Errorf("no client is called %q: take one of %s", client, strings.Join(Clients(), ", "))
	}
	if s.Text == "" {
		text, err := s.Edit(nil)
		if err != nil {
			return Settings{}, err
		}
		s.Text = string(text)
	}
	return s, nil
}

// choose finds the model by name; without one it takes that with the longest context, the first by name among equals.
func choose(models []Model, name string) (Model, error) {
	if len(models) == 0 {
		return Model{}, fmt.Errorf("the mesh serves no model yet: see 'viiwork models --mesh'")
	}
	if name == "" {
		return slices.MaxFunc(models, func(a, b Model) int {
			if a.Context != b.Context {
				return a.Context - b.Context
			}
			return strings.Compare(b.ID, a.ID)
		}), nil
	}
	if i := slices.IndexFunc(models, func(m Model) bool { return m.ID == name }); i >= 0 {
		return models[i], nil
	}
	return Model{}, fmt.Errorf("the mesh has no model and no alias %q: 'viiwork models --mesh' and 'viiwork alias ls' list them", name)
}

// output is what an answer may take of a context: prompt and answer share a slot, and agents need most of it for the
// prompt. More than 32000 no client asks for.
func output(context int) int { return min(context/4, 32000) }

// key is what clients send that insist on one. An open API takes any.
const key = "viiwork"

// openai are the variables that its own libraries and most others read.
func (s *Settings) openai() {
	s.BaseURL += "/v1"
	s.Text = exports([]variable{{"OPENAI_BASE_URL", s.BaseURL}, {"OPENAI_API_KEY", key}, {"OPENAI_MODEL", s.Model}})
	s.Notes = append(s.Notes, "OPENAI_MODEL is read by some programs; others want the model's name in their own settings")
}

type variable struct{ name, value string }

// exports writes variables for a shell.
func exports(list []variable) string {
	var out strings.Builder
	for _, v := range list {
		fmt.Fprintf(&out, "export %s='%s'\n", v.name, strings.ReplaceAll(v.value, "'", `'\''`))
	}
	return out.String()
}

// claude talks to /v1/messages below the base URL. Its own names for models lead to ours, or its side requests would ask
// for models that nobody here has.
func (s *Settings) claude(file string) {
	s.File = file
	list := []variable{
		{"ANTHROPIC_BASE_URL", s.BaseURL}, {"ANTHROPIC_AUTH_TOKEN", key}, {"ANTHROPIC_MODEL", s.Model},
		{"ANTHROPIC_SMALL_FAST_MODEL", s.Model}, {"ANTHROPIC_DEFAULT_HAIKU_MODEL", s.Model},
		{"ANTHROPIC_DEFAULT_SONNET_MODEL", s.Model}, {"ANTHROPIC_DEFAULT_OPUS_MODEL", s.Model},
		{"CLAUDE_CODE_ATTRIBUTION_HEADER", "0"}, {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"},
	}
	if s.Context > 0 {
		list = append(list, variable{"CLAUDE_CODE_MAX_CONTEXT_TOKENS", strconv.Itoa(s.Context)},
			variable{"CLAUDE_CODE_AUTO_COMPACT_WINDOW", strconv.Itoa(s.Context)},
			variable{"CLAUDE_CODE_MAX_OUTPUT_TOKENS", strconv.Itoa(s.Output)})
	}
	s.short(32768)
	s.edit = func(old []byte) ([]byte, error) {
		for _, v := range list {
			var err error
			if old, err = setJSON(old, []string{"env", v.name}, v.value); err != nil {
				return nil, err
			}
		}
		return old, nil
	}
}

// short warns where an agent's first request alone would fill a slot.
func (s *Settings) short(needs int) {
	if s.Context > 0 && s.Context < needs {
		s.Notes = append(s.Notes, fmt.Sprintf("%s fills some 20000 tokens before the first word: %d a slot are few, %d are better", s.Client, s.Context, needs))
	}
}

// opencode is told of all models, and takes the chosen one for its titles too.
func (s *Settings) opencode(mesh Mesh, file string) {
	s.File, s.BaseURL = file, s.BaseURL+"/v1"
	type limit struct {
		Context int `json:"context"`
		Output  int `json:"output"`
	}
	type model struct {
		Name  string `json:"name"`
		Limit *limit `json:"limit,omitempty"`
	}
	models := map[string]model{}
	for _, m := range mesh.Models {
		entry := model{Name: m.ID}
		if m.Context > 0 {
			entry.Limit = &limit{m.Context, output(m.Context)}
		}
		models[m.ID] = entry
	}
	type options struct {
		BaseURL string `json:"baseURL"`
		APIKey  string `json:"apiKey"`
	}
	provider := struct {
		NPM     string           `json:"npm"`
		Name    string           `json:"name"`
		Options options          `json:"options"`
		Models  map[string]model `json:"models"`
	}{"@ai-sdk/openai-compatible", "viiwork", options{s.BaseURL, key}, models}
	s.short(32768)
	chosen := "viiwork/" + s.Model
	s.edit = func(old []byte) (text []byte, err error) {
		if text = old; len(strings.TrimSpace(string(old))) == 0 {
			text = []byte("{\n  \"$schema\": \"https://opencode.ai/config.json\"\n}\n")
		}
		for _, e := range []struct {
			path  []string
			value any
		}{
			{[]string{"provider", "viiwork"}, provider}, {[]string{"model"}, chosen}, {[]string{"small_model"}, chosen},
		} {
			if text, err = setJSON(text, e.path, e.value); err != nil {
				return nil, err
			}
		}
		return text, nil
	}
}

// codex speaks the responses API alone. Without its context it takes a model it does not know for a far larger one.
func (s *Settings) codex(file string) {
	s.File, s.BaseURL = file, s.BaseURL+"/v1"
	top := []pair{{"model", tomlText(s.Model)}, {"model_provider", tomlText("viiwork")}}
	if s.Context > 0 {
		top = append(top, pair{"model_context_window", strconv.Itoa(s.Context)},
			pair{"model_auto_compact_token_limit", strconv.Itoa(s.Context - s.Output)})
	}
	table := []pair{{"name", tomlText("viiwork")}, {"base_url", tomlText(s.BaseURL)}, {"wire_api", tomlText("responses")}}
	s.short(32768)
	s.edit = func(old []byte) ([]byte, error) {
		return setTOML(old, top, tomlTable{[]string{"model_providers", "viiwork"}, table})
	}
}

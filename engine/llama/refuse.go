package llama

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// refused is a group of flags the owner may not give, and the way that leads to what they want.
type refused struct {
	why   string
	flags []string // a trailing * stands for any ending
	env   []string // the same settings as variables, without LLAMA_ARG_
}

// refusals lists what viiwork sets itself and what would let a request reach more than a model. A flag that merely
// changes how the model runs stays the owner's.
func refusals() []refused {
	return []refused{
		{"viiwork picks the engine's address: remove it",
			[]string{"--host", "--port", "--reuse-port", "--api-prefix", "--path", "--ssl-key-file", "--ssl-cert-file"},
			[]string{"HOST", "PORT", "REUSE_PORT", "API_PREFIX", "STATIC_PATH", "SSL_KEY_FILE", "SSL_CERT_FILE"}},
		{"viiwork gives each engine its own key: remove it",
			[]string{"--api-key", "--api-key-file"}, []string{"API_KEY", "API_KEY_FILE"}},
		{"pages of other origins talk to the node, not to the engine: remove it and set api.cors",
			[]string{"--cors-*", "--no-cors-*"}, []string{"CORS_ORIGINS", "CORS_METHODS", "CORS_HEADERS", "CORS_CREDENTIALS"}},
		{"it would let a request run programs on this machine: remove it",
			[]string{"--tools", "--tools-runtime", "-ag", "--agent", "--ui-mcp-proxy", "--webui-mcp-proxy", "--mcp-servers-*"},
			[]string{"TOOLS", "TOOLS_RUNTIME", "AGENT", "UI_MCP_PROXY", "WEBUI_MCP_PROXY", "MCP_SERVERS_CONFIG", "MCP_SERVERS_JSON"}},
		{"an engine serves one model: remove it and list each under models",
			[]string{"--models-*", "--no-models-*"}, []string{"MODELS_DIR", "MODELS_PRESET", "MODELS_MAX", "MODELS_AUTOLOAD"}},
		{"engines load files of this machine only: remove it and set path",
			[]string{"-m", "--model", "-mu", "--model-url", "-dr", "--docker-repo", "-hf", "-hfr", "--hf-*", "-hff", "-hft",
				"--embd-gemma-*", "--fim-qwen-*", "--gpt-oss-*", "--vision-gemma-*"},
			[]string{"MODEL", "MODEL_URL", "DOCKER_REPO", "HF_REPO", "HF_FILE"}},
		{"the model answers to its configured name: remove it and set name", []string{"-a", "--alias"}, []string{"ALIAS"}},
		{"viiwork hands out the slots: remove it and set parallel", []string{"-np", "--parallel"}, []string{"N_PARALLEL"}},
		{"the context of a slot is configured: remove it and set context",
			[]string{"-c", "--ctx-size", "--kv-unified-per-slot", "-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"},
			[]string{"CTX_SIZE", "KV_UNIFIED_PER_SLOT", "KV_UNIFIED"}},
		{"the engine's prompt cache is configured: remove it and set llamacpp.prompt_cache",
			[]string{"-cram", "--cache-ram", "--cache-idle-slots", "--no-cache-idle-slots"}, []string{"CACHE_RAM", "CACHE_IDLE_SLOTS"}},
		{"viiwork saves, restores and watches the slots: remove it",
			[]string{"--slot-save-path", "--no-slots", "--slots"}, []string{"SLOT_SAVE_PATH", "ENDPOINT_SLOTS"}},
		{"the server would print something and end: remove it",
			[]string{"-h", "--help", "--usage", "--version", "-cl", "--cache-list", "--list-devices", "--completion-bash"}, nil},
	}
}

// refusal says why a flag is not the owner's to give.
func refusal(flag string) (why string, refused bool) {
	for _, r := range refusals() {
		for _, f := range r.flags {
			prefix, open := strings.CutSuffix(f, "*")
			if flag == f || open && strings.HasPrefix(flag, prefix) {
				return r.why, true
			}
		}
	}
	return "", false
}

// checkEnv holds the owner's variables to the same list: llama-server reads nearly every flag from one as well, and
// flags not given on its command line would then be the owner's after all.
func checkEnv(env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "LLAMA_API_KEY" {
			return fmt.Errorf("variable %s is not for env: viiwork gives each engine its own key: remove it", name)
		}
		setting, ours := strings.CutPrefix(name, "LLAMA_ARG_")
		if !ours {
			continue
		}
		setting = strings.TrimPrefix(setting, "NO_")
		for _, r := range refusals() {
			if slices.Contains(r.env, setting) {
				return fmt.Errorf("variable %s is not for env: %s", name, r.why)
			}
		}
	}
	return nil
}

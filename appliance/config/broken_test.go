package config_test

import (
	"fmt"
	"strings"
)

// A model that is right, to stand beside what is wrong.
const model = "models: [{name: a, path: /a}]\n"

var broken = []struct {
	name, text string
	environ    []string
	want       []string // position and key, then words of the message
}{
	// The shape of the file.
	{"unknown key", "nod: {}\n", nil, []string{"1:1: nod: unknown key: did you mean node?"}},
	{"unknown deep key", "models:\n  - name: a\n    path: /a\n    llamacpp: {prompt_cach: 1GiB}\n", nil, []string{"4:16: models[0].llamacpp.prompt_cach: unknown key: did you mean prompt_cache?"}},
	{"dashes for underscores", "routing:\n  queue-timeout: 3s\n", nil, []string{"2:3: routing.queue-timeout: unknown key: did you mean queue_timeout?"}},
	{"key of another section", "queue_timeout: 3s\n", nil, []string{"1:1: queue_timeout: unknown key here: did you mean routing.queue_timeout?"}},
	{"key nobody has", "log: {zzzzzzzz: 1}\n", nil, []string{"1:7: log.zzzzzzzz: unknown key: remove it, the keys here are level, format"}},
	{"odd key", "\"a\\nb\": 1\n", nil, []string{`1:1: "a\nb": unknown key`}},
	{"written twice", "log:\n  level: info\n  level: debug\n", nil, []string{"3:3: log.level: written twice, first in line 2"}},
	{"key that is a list", "? [a]\n: 1\n", nil, []string{"1:3: a key must be one word"}},
	{"text for a block", "api: 8086\n", nil, []string{"1:6: api: want a block of keys (port, host, local, hosts, cors, max_body, max_inflight), not a number"}},
	{"list for a block", "api:\n  - 1\n", nil, []string{"2:3: api: want a block of keys"}},
	{"text for a list", "api: {hosts: example.org}\n", nil, []string{"1:14: api.hosts: want a list, not text: write [example.org]"}},
	{"text for models", "models: x\n", nil, []string{"1:9: models: want a list, not text"}},
	{"list for text", "node: {name: [a]}\n", nil, []string{"1:14: node.name: want text, not a list"}},
	{"text for a number", "api: {port: many}\n", nil, []string{`1:13: api.port: want a whole number: "many" is not a whole number`}},
	{"quoted number", "api: {port: \"8086\"}\n", nil, []string{"1:13: api.port: want a whole number, not text: take the quotes away"}},
	{"fraction", "api: {port: 80.5}\n", nil, []string{"1:13: api.port: want a whole number"}},
	{"number beyond all", "api: {port: 99999999999999999999}\n", nil, []string{"1:13: api.port: want a whole number"}},
	{"truth", "update: {auto: maybe}\n", nil, []string{`1:16: update.auto: want true or false: "maybe" is neither`}},
	{"bare duration", "node: {drain: 30}\n", nil, []string{`1:15: node.drain: want a duration such as 20s: "30" is not a duration: write it with its unit`}},
	{"negative duration", "node: {drain: -3s}\n", nil, []string{"1:15: node.drain: want a duration such as 20s: \"-3s\" is a time before now"}},
	{"half a unit", "kv_share: {store: 8G}\n", nil, []string{`1:19: kv_share.store: want a size such as 8GiB: "8G" has half a unit: write 8GiB or 8GB`}},
	{"negative size", "kv_share: {store: -1}\n", nil, []string{"1:19: kv_share.store: want a size"}},
	{"huge size", "kv_share: {store: 9000000TiB}\n", nil, []string{"is more than a machine has"}},
	{"part of a byte", "kv_share: {store: 0.3}\n", nil, []string{"is not a whole number of bytes"}},
	{"empty entry", "api:\n  hosts:\n    - a\n    -\n", nil, []string{"4:6: api.hosts[1]: empty entry"}},
	{"foreign tag", "node: {name: !x a}\n", nil, []string{"1:14: node.name: want text: take the tag"}},
	{"null in a table", "aliases:\n  a:\n", nil, []string{"aliases.a: want text, not nothing"}},
	{"merge of text", "log: {<<: info}\n", nil, []string{"1:11: log: << merges blocks of keys"}},
	{"root is a list", "- a\n", nil, []string{"1:1: want a block of keys"}},
	{"root is text", "hello\n", nil, []string{"1:1: want a block of keys"}},
	{"anchor in itself", "access: {rules: &a [*a]}\n", nil, []string{"nested deeper than 32 levels"}},
	{"merge in itself", "log: &a {<<: *a}\n", nil, []string{"nested deeper than 32 levels"}},
	{"billion laughs", laughs(), nil, []string{"the file grows beyond 50000 values"}},
	// Syntax.
	{"deep brackets", strings.Repeat("[", 20_000), nil, []string{"1:10001: nested deeper than any key"}},
	{"tab", "api:\n\tport: 1\n", nil, []string{"2:1: a tab: YAML is indented with spaces"}},
	{"indentation", "api:\n  port: 1\n   host: x\n", nil, []string{"3:8: a second ':' or a wrong indentation"}},
	{"open bracket", "api: {hosts: [a\n", nil, []string{"check brackets and indentation"}},
	{"open quote", "node: {name: \"a}\n", nil, []string{"a quote or bracket opened before is never closed"}},
	{"percent", "node:\n  name: %a\n", nil, []string{"2:9: a value cannot start with this character: put it in quotes"}},
	{"unknown anchor", "log: *x\n", nil, []string{"1:6: unknown anchor"}},
	{"two documents", "log: {}\n---\nlog: {}\n", nil, []string{"2:1: a second document starts here"}},
	{"broken second document", "log: {}\n---\n{\n", nil, []string{": "}},
	{"not UTF-8", "# é\nnode: {name: \xff}\n", nil, []string{"2:14: this byte is not readable text"}},
	{"control character", "node: {name: a\x01}\n", nil, []string{"1:15: this byte is not readable text"}},
	{"UTF-16", "\xff\xfea\x00", nil, []string{"1:1: this byte is not readable text"}},
	{"too large", "#" + strings.Repeat("x", 1<<20), nil, []string{"1:1: the file is over 1 MiB"}},
	// viiwork 1.
	{"version 1", "# old\nserver: {port: 1}\nmodel: x\nnonsense: 1\ngpus: [0]\n", nil, []string{"2:1: server: this is a file of viiwork 1 (it has server, model, gpus at the top level): rewrite it with 'viiwork config migrate', or as MIGRATING.md shows"}},
	{"version 1 peers", "peers: []\n", nil, []string{"1:1: peers: this is a file of viiwork 1"}},
	// node, api.
	{"node name", "node: {name: Attic}\n", nil, []string{`1:14: node.name: "Attic": use 1 to 32 of a-z, 0-9 and -`}},
	{"long node name", "node: {name: " + strings.Repeat("a", 33) + "}\n", nil, []string{"1:14: node.name"}},
	{"home folder", "node: {state_dir: ~/x}\n", nil, []string{"1:19: node.state_dir: ", "are not expanded"}},
	{"port 0", "api: {port: 0, local: \"\"}\n", nil, []string{"1:13: api.port: 0 is out of range: choose 1 to 65535"}},
	{"port 65536", "api: {port: 65536, local: \"\"}\n", nil, []string{"1:13: api.port: 65536 is out of range"}},
	{"host name as address", "api: {host: box}\n", nil, []string{"1:13: api.host: \"box\" is no IP address"}},
	{"local for all", "api: {local: \"0.0.0.0:8086\"}\n", nil, []string{"1:14: api.local: \"0.0.0.0:8086\" can be reached from outside"}},
	{"local elsewhere", "api: {local: \"box:8086\"}\n", nil, []string{"can be reached from outside"}},
	{"local mapped", "api: {local: \"[::ffff:10.0.0.1]:8086\"}\n", nil, []string{"can be reached from outside"}},
	{"local without port", "api: {local: 127.0.0.1}\n", nil, []string{"1:14: api.local: \"127.0.0.1\" is not host:port"}},
	{"local bad port", "api: {local: \"127.0.0.1:0\"}\n", nil, []string{"is not host:port"}},
	{"host with a port", "api: {hosts: [\"a:1\"]}\n", nil, []string{"1:15: api.hosts[0]: \"a:1\" is no host name"}},
	{"origin with a path", "api: {cors: {allow_origins: [\"https://a/b\"]}}\n", nil, []string{"1:30: api.cors.allow_origins[0]: "}},
	{"body beyond all bodies", "api: {max_inflight: 1MiB}\n", nil, []string{"1:21: api.max_inflight: 1MiB is less than one body of max_body (64MiB)"}},
	{"no body", "api: {max_body: 0}\n", nil, []string{"1:17: api.max_body"}},
	// routing and the small sections.
	{"policy", "routing: {policy: csot}\n", nil, []string{`1:19: routing.policy: "csot" is not one of cost, classic: did you mean cost?`}},
	{"queue", "routing: {queue_max: -1}\n", nil, []string{"1:22: routing.queue_max: -1 is out of range"}},
	{"stale", "routing: {stale_after: 10ms}\n", nil, []string{"1:24: routing.stale_after: 10ms is too short: choose at least 1s"}},
	{"header", "routing: {session_headers: [\"a b\"]}\n", nil, []string{"1:29: routing.session_headers[0]: "}},
	{"health", "health: {interval: 0s, stall: 0s, max_respawns: -1}\n", nil, []string{"1:20: health.interval", "1:31: health.stall", "1:49: health.max_respawns"}},
	{"kv mode", "kv_share: {mode: push}\n", nil, []string{"1:18: kv_share.mode"}},
	{"kv rate", "kv_share: {rate: 100KiB}\n", nil, []string{"1:18: kv_share.rate: 100KiB a second"}},
	{"kv direct", "kv_share: {direct: [auto, box]}\n", nil, []string{"1:21: kv_share.direct[0]", "1:27: kv_share.direct[1]"}},
	{"power", "gpu: {power_limit_watts: -1}\n", nil, []string{"1:26: gpu.power_limit_watts"}},
	{"window", "update: {window: night}\n", nil, []string{"1:18: update.window: \"night\" is no time of day: write it as 02:00-05:00, or with days as Sat-Sun 02:00-05:00"}},
	{"collector", "telemetry: {otlp: \"http://me:hunter2@collector:4318\"}\n", nil, []string{"1:19: telemetry.otlp: this is no collector's address"}},
	{"log", "log: {level: warning, format: xml}\n", nil, []string{"1:14: log.level: \"warning\" is not one of", "did you mean warn?", "1:31: log.format"}},
	// models.
	{"no name, no path", "models:\n  - parallel: 1\n", nil, []string{"2:5: models[0].name: missing", "2:5: models[0].path: missing"}},
	{"two of a name", "models:\n  - {name: a, path: /a}\n  - {name: a, path: /b}\n", nil, []string{`3:12: models[1].name: "a" is already models[0]`}},
	{"control in a name", "models: [{name: \"a\\nb\", path: /a}]\n", nil, []string{`1:17: models[0].name: "a\nb" holds unprintable characters`}},
	{"long name", "models: [{name: " + strings.Repeat("a", 201) + ", path: /a}]\n", nil, []string{"1:17: models[0].name: longer than 200 bytes"}},
	{"engine", "models: [{name: a, path: /a, engine: lamacpp}]\n", nil, []string{"1:38: models[0].engine: ", "did you mean llamacpp?"}},
	{"card of two models", "models:\n  - {name: a, path: /a, gpus: [0, 1]}\n  - {name: b, path: /b, gpus: [2, 1]}\n", nil, []string{`3:35: models[1].gpus[1]: card 1 already belongs to models[0] ("a")`}},
	{"card twice", "models: [{name: a, path: /a, gpus: [1, 1]}]\n", nil, []string{"1:40: models[0].gpus[1]: card 1 is named twice"}},
	{"card below zero", "models: [{name: a, path: /a, gpus: [-1]}]\n", nil, []string{"1:37: models[0].gpus[0]: -1 is no index of a card"}},
	{"cards by name", "models: [{name: a, path: /a, gpus: [all], gpus_per_backend: 2}]\n", nil, []string{"1:37: models[0].gpus[0]: want a whole number"}},
	{"groups", "models: [{name: a, path: /a, gpus: [0, 1, 2, 3], gpus_per_backend: 3}]\n", nil, []string{"1:68: models[0].gpus_per_backend: 4 cards cannot be cut into groups of 3: choose 1, 2, 4"}},
	{"groups of nothing", "models: [{name: a, path: /a, gpus_per_backend: 2}]\n", nil, []string{"1:48: models[0].gpus_per_backend: there are no gpus"}},
	{"groups of zero", "models: [{name: a, path: /a, gpus: [0], gpus_per_backend: 0}]\n", nil, []string{"1:59: models[0].gpus_per_backend"}},
	{"weights", "models: [{name: a, path: /a, gpus: [0, 1], gpus_per_backend: 2, llamacpp: {split_weights: [1]}}]\n", nil, []string{"1:91: models[0].llamacpp.split_weights: 1 weights for backends of 2 cards"}},
	{"weight of nothing", "models: [{name: a, path: /a, gpus: [0], llamacpp: {split_weights: [0]}}]\n", nil, []string{"models[0].llamacpp.split_weights: all weights are 0"}},
	{"weight without end", "models: [{name: a, path: /a, gpus: [0], llamacpp: {split_weights: [1e308]}}]\n", nil, []string{"models[0].llamacpp.split_weights[0]: 1e+308 is no share of a card"}},
	{"weight not a number", "models: [{name: a, path: /a, gpus: [0], llamacpp: {split_weights: [.nan]}}]\n", nil, []string{"models[0].llamacpp.split_weights[0]: want a number"}},
	{"context", "models: [{name: a, path: /a, context: 255}]\n", nil, []string{"1:39: models[0].context: 255 is out of range: choose 256 to"}},
	{"context without end", "models: [{name: a, path: /a, context: 2147483648}]\n", nil, []string{"1:39: models[0].context: want a whole number: \"2147483648\" is beyond any setting"}},
	{"context of nothing", "models: [{name: a, path: /a, context: 0}]\n", nil, []string{"1:39: models[0].context"}},
	{"parallel", "models: [{name: a, path: /a, parallel: 65}]\n", nil, []string{"1:40: models[0].parallel: 65 is out of range: choose 1 to 64"}},
	{"env name", "models: [{name: a, path: /a, env: {A-B: x}}]\n", nil, []string{"models[0].env.A-B: \"A-B\" is no name of a variable"}},
	{"two lines of argument", "models: [{name: a, path: /a, args: [\"a\\nb\"]}]\n", nil, []string{"models[0].args[0]: an argument is one line"}},
	{"runner", "models: [{name: a, path: /a, llamacpp: {runner: docke}}]\n", nil, []string{"1:49: models[0].llamacpp.runner: ", "did you mean docker?"}},
	{"no image", "models: [{name: a, path: /a, llamacpp: {image: \"\"}}]\n", nil, []string{"1:48: models[0].llamacpp.image"}},
	{"no binary", "models: [{name: a, path: /a, llamacpp: {runner: native, binary: \"\"}}]\n", nil, []string{"1:65: models[0].llamacpp.binary"}},
	{"url of a container", "models: [{name: a, path: /a, llamacpp: {url: \"http://a:1\"}}]\n", nil, []string{"1:46: models[0].llamacpp.url: a url is for runner external, this is docker"}},
	{"external nowhere", "models: [{name: a, llamacpp: {runner: external}}]\n", nil, []string{"models[0].llamacpp.url: missing"}},
	{"external path", "models: [{name: a, llamacpp: {runner: external, url: \"http://a:1/v1\"}}]\n", nil, []string{"1:54: models[0].llamacpp.url: want http://host:port"}},
	{"external scheme", "models: [{name: a, llamacpp: {runner: external, url: \"ftp://a:1\"}}]\n", nil, []string{"models[0].llamacpp.url"}},
	{"external cards", "models: [{name: a, gpus: [0], args: [-x], llamacpp: {runner: external, url: \"http://a:1\", image: x, binary: y}}]\n", nil,
		[]string{"1:26: models[0].gpus: has no effect", "1:37: models[0].args: has no effect", "1:98: models[0].llamacpp.image: has no effect", "1:109: models[0].llamacpp.binary: has no effect"}},
	{"alias of itself", "aliases: {a: a}\n", nil, []string{"1:14: aliases.a: points at itself"}},
	{"alias of nothing", "aliases: {a: \"\"}\n", nil, []string{"1:14: aliases.a: the target is no name"}},
	// The environment.
	{"variable of a wrong type", model, []string{"VIIWORK_API_PORT=x"}, []string{`env VIIWORK_API_PORT: api.port: want a whole number: "x" is not a whole number`}},
	{"variable out of range", model, []string{"VIIWORK_MODELS_0_PARALLEL=99"}, []string{"env VIIWORK_MODELS_0_PARALLEL: models[0].parallel: 99 is out of range"}},
	{"element of a variable", model, []string{"VIIWORK_MODELS_0_GPUS=0,x"}, []string{"env VIIWORK_MODELS_0_GPUS: models[0].gpus: want a whole number"}},
}

func laughs() string {
	var b strings.Builder
	b.WriteString("access:\n  rules:\n    - &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "    - &a%d [%s]\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

package llama

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"viiwork/engine"
)

// defaultCacheType is the server's own for K and V.
const defaultCacheType = "f16"

// Traits reads what must be equal for a slot's file of one engine to suit another. Of a flag that is given twice the last
// counts, and a flag counts before its variable, as with the server.
func (d *Dialect) Traits(b engine.Build, args []string, env map[string]string) engine.KVTraits {
	flags := readFlags(b, args)
	last := func(variable string, names ...string) (string, bool) {
		for _, f := range slices.Backward(flags) {
			if slices.Contains(names, f.name) {
				return strings.Join(f.values, " "), true
			}
		}
		v, set := env[variable]
		return v, set
	}
	t := engine.KVTraits{TypeK: defaultCacheType, TypeV: defaultCacheType, Alters: alters(flags, env)}
	if v, set := last("LLAMA_ARG_CACHE_TYPE_K", "-ctk", "--cache-type-k"); set {
		t.TypeK = printable(v, 32)
	}
	if v, set := last("LLAMA_ARG_CACHE_TYPE_V", "-ctv", "--cache-type-v"); set {
		t.TypeV = printable(v, 32)
	}
	// "auto" is taken for on: so it ends with every back end that can, and where it does not, the file of another is refused.
	if v, set := last("LLAMA_ARG_FLASH_ATTN", "-fa", "--flash-attn"); set {
		t.Flash = !slices.Contains([]string{"off", "0", "false", "disabled"}, v)
	} else {
		t.Flash = takesValue(b, "-fa")
	}
	// Builds that know no flag for it have one pool.
	_, unified := last("", "-kvu", "--kv-unified")
	t.Unified = unified || !b.Flags["-kvu"] && !b.Flags["--kv-unified"]
	return t
}

// flag is one flag of a command line with what follows it.
type flag struct {
	name   string
	values []string
}

// readFlags takes a command line apart that Flags has put together, so that nothing in it is unknown.
func readFlags(b engine.Build, args []string) []flag {
	var all []flag
	for len(args) > 0 {
		n := min(valuesOf(b, args[0], args[1:]), len(args)-1)
		all = append(all, flag{flagOf(args[0]), args[1 : 1+n]})
		args = args[1+n:]
	}
	return all
}

// altering begin the names of flags, and of their variables without LLAMA_ARG_, that change the K and V a model computes
// for a token, or what of them is kept. Nothing in a slot's file tells of them.
func altering() []string {
	return []string{"rope-", "yarn-", "lora", "control-vector", "override-kv", "swa-full", "grp-attn"}
}

// alters digests such flags; "" when there are none. A file that a flag names counts by its path: where the same adapter
// lies elsewhere, nothing is shared, which is slow and not wrong.
func alters(flags []flag, env map[string]string) string {
	var given []string
	for _, f := range flags {
		if isAltering(strings.TrimLeft(f.name, "-")) {
			given = append(given, f.name+"="+strings.Join(f.values, " "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if setting, ours := strings.CutPrefix(name, "LLAMA_ARG_"); ours {
			if isAltering(strings.ToLower(strings.ReplaceAll(setting, "_", "-"))) {
				given = append(given, name+"="+env[name])
			}
		}
	}
	if len(given) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(given, "\n")))
	return hex.EncodeToString(sum[:8])
}

func isAltering(name string) bool {
	return slices.ContainsFunc(altering(), func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

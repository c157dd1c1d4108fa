package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxModelName = 200 // bytes, of an alias as well
	maxGPU       = 255
	minContext   = 256
	maxContext   = 16 << 20
	maxParallel  = 64
	maxShare     = 1 << 20
)

func (k *checker) models() {
	named := map[string]int{} // name → index
	owner := map[int]int{}    // card → index
	for i, m := range k.c.Models {
		if k.list.full() {
			return
		}
		key := item("models", i)
		k.modelName(key+".name", m.Name)
		if first, twice := named[m.Name]; twice && m.Name != "" {
			k.bad(key+".name", "%s is already models[%d]: a name is served by one entry, rename one", quote(m.Name), first)
		} else {
			named[m.Name] = i
		}
		k.oneOf(key+".engine", m.Engine, "llamacpp")
		k.model(key, m)
		k.cards(key, i, owner)
	}
}

func (k *checker) modelName(key, name string) {
	switch {
	case name == "":
		k.bad(key, "missing: say under which name the model is served")
	case len(name) > maxModelName:
		k.bad(key, "longer than %d bytes: shorten it", maxModelName)
	case !isName(name):
		k.bad(key, "%s holds unprintable characters or outer spaces: remove them", quote(name))
	}
}

// isName is what the mesh takes for the name of a model.
func isName(s string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unprintable) && strings.TrimSpace(s) == s
}

func (k *checker) model(key string, m Model) {
	if m.Context != 0 || m.Llamacpp.Runner != runnerExternal || k.c.IsSet(key+".context") {
		k.between(key+".context", m.Context, minContext, maxContext)
	}
	k.between(key+".parallel", m.Parallel, 1, maxParallel)
	k.atLeast(key+".startup_timeout", m.StartupTimeout, time.Second)
	if len(m.Args) > 256 {
		k.bad(key+".args", "%d arguments: an engine takes at most 256", len(m.Args))
	}
	for i, a := range m.Args {
		if len(a) > 4096 || strings.ContainsAny(a, "\x00\n\r") {
			k.bad(item(key+".args", i), "an argument is one line of at most 4096 bytes: split or shorten it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		if !envWord.MatchString(name) || strings.ContainsRune(m.Env[name], 0) {
			k.bad(key+".env."+name, "%s is no name of a variable: use letters, digits and _", quote(name))
		}
	}
	k.llamacpp(key+".llamacpp", m.Llamacpp)
	switch m.Llamacpp.Runner {
	case runnerExternal:
		k.external(key, m)
	default:
		k.path(key+".path", m.Path)
		if m.Path == "" {
			k.bad(key+".path", "missing: name the GGUF file, absolute or under models_dir (%s)", k.c.ModelsDir)
		}
	}
}

func (k *checker) llamacpp(key string, l Llamacpp) {
	k.oneOf(key+".runner", l.Runner, runnerDocker, runnerNative, runnerExternal)
	k.oneOf(key+".split_mode", l.SplitMode, "layer", "row", "none", "tensor")
	k.between(key+".threads", l.Threads, 0, 4096)
	if l.URL != "" && (l.Runner == runnerDocker || l.Runner == runnerNative) {
		k.bad(key+".url", "a url is for runner external, this is %s: change the runner or remove the url", l.Runner)
	}
	switch {
	case l.Runner == runnerDocker && (l.Image == "" || strings.ContainsFunc(l.Image, isSpaceOrControl)):
		k.bad(key+".image", "%s is no image: name one, such as cuda, rocm or cpu", quote(l.Image))
	case l.Runner == runnerNative && (strings.TrimSpace(l.Binary) == "" || hasControl(l.Binary)):
		k.bad(key+".binary", "%s is no program: name one, such as llama-server or its whole path", quote(l.Binary))
	}
}

func isSpaceOrControl(r rune) bool { return r == ' ' || hasControl(string(r)) }

// external refuses what would have no effect on a server that somebody else starts.
func (k *checker) external(key string, m Model) {
	l := m.Llamacpp
	if l.URL == "" {
		k.bad(key+".llamacpp.url", "missing: runner external needs the server's address, such as http://127.0.0.1:9000")
	} else if !isBaseURL(l.URL) {
		k.bad(key+".llamacpp.url", "want http://host:port or https://host:port, without path, query, user or password")
	}
	unused := []struct {
		key  string
		used bool
	}{
		{".llamacpp.image", l.Image != "" && l.Image != "cuda"}, // both may be copied from the sample as they are
		{".llamacpp.binary", l.Binary != "" && l.Binary != "llama-server"},
		{".gpus", len(m.GPUs) > 0},
		{".args", len(m.Args) > 0},
		{".env", len(m.Env) > 0},
	}
	for _, u := range unused {
		if u.used {
			k.bad(key+u.key, "has no effect with runner external, whose server is started by somebody else: remove it")
		}
	}
}

func isBaseURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || !isWeb(u) || !isAuthority(u) || u.Path != "" && u.Path != "/" {
		return false
	}
	return *u == url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
}

// cards checks how a model's cards are cut, and that no card has two owners.
func (k *checker) cards(key string, i int, owner map[int]int) {
	m := k.c.Models[i]
	sound := true
	for j, g := range m.GPUs {
		first, taken := owner[g]
		switch at := item(key+".gpus", j); {
		case k.broken[at]: // could not be read
			sound = false
		case g < 0 || g > maxGPU:
			k.bad(at, "%d is no index of a card: use 0 to %d", g, maxGPU)
		case taken && first == i:
			k.bad(at, "card %d is named twice: remove one", g)
		case taken:
			k.bad(at, "card %d already belongs to models[%d] (%s): a card has one model, give one of them another", g, first, quote(k.c.Models[first].Name))
		default:
			owner[g] = i
		}
	}
	if sound && m.Llamacpp.Runner != runnerExternal {
		k.groups(key, m)
	}
}

func (k *checker) groups(key string, m Model) {
	at, n := key+".gpus_per_backend", m.GPUsPerBackend
	switch {
	case n < 1:
		k.bad(at, "%d cards: an engine process gets at least 1", n)
	case len(m.GPUs) == 0 && n > 1 && !k.broken[key+".gpus"]:
		k.bad(at, "there are no gpus to cut into groups of %d: add gpus or remove it", n)
	case len(m.GPUs)%n != 0:
		k.bad(at, "%d cards cannot be cut into groups of %d: choose %s", len(m.GPUs), n, divisors(len(m.GPUs)))
	}
	k.weights(key+".llamacpp.split_weights", m)
}

func (k *checker) weights(at string, m Model) {
	weights, sum := m.Llamacpp.SplitWeights, 0.0
	if len(weights) == 0 {
		return
	}
	for i, w := range weights {
		switch {
		case w < 0:
			k.bad(item(at, i), "%g is less than nothing: use shares such as 1 and 2", w)
		case w > maxShare:
			k.bad(item(at, i), "%g is no share of a card: use small numbers such as 1 and 2", w)
		}
		sum += w
	}
	switch {
	case len(weights) != m.GPUsPerBackend:
		k.bad(at, "%d weights for backends of %d cards: give one each (gpus_per_backend)", len(weights), m.GPUsPerBackend)
	case sum == 0:
		k.bad(at, "all weights are 0: give at least one card a share")
	}
}

func divisors(n int) string {
	var list []string
	for d := 1; d <= n; d++ {
		if n%d == 0 {
			list = append(list, fmt.Sprint(d))
		}
	}
	return strings.Join(list, ", ")
}

// aliasName is what the mesh accepts.
var aliasName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$`)

func (k *checker) aliases() {
	for _, name := range slices.Sorted(maps.Keys(k.c.Aliases)) {
		target, key := k.c.Aliases[name], "aliases."+name
		switch {
		case !aliasName.MatchString(name) || len(name) > maxModelName:
			k.bad(key, "an alias is 1 to %d of a-z, A-Z, 0-9 and ._:/@+-, and begins with a letter or a digit: rename it", maxModelName)
		case target == "" || len(target) > maxModelName || !isName(target):
			k.bad(key, "the target is no name of a model: write one")
		case target == name:
			k.bad(key, "points at itself: name a model")
		}
	}
}

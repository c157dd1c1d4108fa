package llama

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"viiwork/engine"
)

// ownersArgs checks the owner's flags against the build and returns them as the server takes them: it knows no
// --flag=value, so that form is taken apart.
func ownersArgs(b engine.Build, args []string) ([]string, error) {
	for _, a := range args {
		// Wherever it stands, also as a value: a misread help must not open a way past this list.
		if why, refused := refusal(flagOf(a)); refused {
			return nil, fmt.Errorf("flag %s is not for args: %s", flagOf(a), why)
		}
	}
	var taken []string
	for len(args) > 0 {
		name, n, err := takeFlag(b, args)
		if err != nil {
			return nil, err
		}
		taken = append(taken, name)
		if _, value, joined := strings.Cut(args[0], "="); joined {
			taken = append(taken, value)
		}
		taken = append(taken, args[1:n]...)
		args = args[n:]
	}
	return taken, nil
}

// takeFlag reads the flag at the front of args and says how many elements it and its values fill.
func takeFlag(b engine.Build, args []string) (name string, n int, err error) {
	if !isFlag(args[0]) {
		return "", 0, fmt.Errorf("%q in args follows no flag that takes it: remove it, or put its flag before it", printable(args[0], 60))
	}
	if name = flagOf(args[0]); !b.Flags[name] {
		return "", 0, unknownFlag(b, name)
	}
	want := valuesOf(b, name, args[1:])
	if strings.Contains(args[0], "=") {
		if want--; want < 0 {
			return "", 0, fmt.Errorf("flag %s takes no value in llama-server %s: remove what follows the equals sign in args", name, b.Version)
		}
	}
	if want > len(args)-1 {
		return "", 0, fmt.Errorf("flag %s of llama-server %s wants a value: add it to args", name, b.Version)
	}
	return name, 1 + want, nil
}

// valuesOf tells how many of the elements after a flag belong to it: as many as the help says, whatever they look like
// (that is how the server reads them), or, for a build whose help is not known, all up to the next flag.
func valuesOf(b engine.Build, name string, after []string) int {
	if b.Values != nil {
		return b.Values[name]
	}
	if i := slices.IndexFunc(after, isFlag); i >= 0 {
		return i
	}
	return len(after)
}

func unknownFlag(b engine.Build, name string) error {
	hint := successor(name)
	if flag, _, _ := strings.Cut(hint, " "); !b.Flags[flag] {
		hint = nearest(name, b.Flags)
	}
	if hint == "" {
		return fmt.Errorf("unknown flag %s for llama-server %s: remove it from args", name, b.Version)
	}
	return fmt.Errorf("unknown flag %s for llama-server %s: did you mean %s? correct it in args or remove it", name, b.Version, hint)
}

// successor names what took a removed flag's place where no likeness of names tells.
func successor(name string) string {
	switch name {
	case "--no-mmap":
		return "-lm none"
	case "--mlock":
		return "-lm mlock"
	case "--direct-io":
		return "-lm dio"
	case "--draft", "--draft-n", "--draft-max":
		return "--spec-draft-n-max"
	case "--draft-min", "--draft-n-min":
		return "--spec-draft-n-min"
	}
	return ""
}

// gives says whether the owner's args set one of these flags.
func gives(args []string, names ...string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(names, flagOf(a)) })
}

// isFlag tells a flag from a value: it starts with a dash and is no negative number.
func isFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(arg, 64)
	return err != nil
}

// flagOf gives the name in arg as the server looks it up: of a long flag it reads _ as -, and here = ends it.
func flagOf(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	if strings.HasPrefix(name, "--") {
		name = strings.ReplaceAll(name, "_", "-")
	}
	return printable(name, 80)
}

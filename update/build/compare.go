package build

import "fmt"

// Difference is one level at which a rebuild is not what was published.
type Difference struct {
	Platform string `json:"platform"` // "" = the index, which is over all of them
	Level    string `json:"level"`    // program, content, layer, manifest, index
	Theirs   string `json:"theirs"`
	Ours     string `json:"ours"`
	Means    string `json:"means"`
}

// means says what follows from a difference at a level whose inner ones are equal.
func means(level string) string {
	switch level {
	case "program":
		return "another source, toolchain or flags: the programs differ"
	case "content":
		return "the same program in another archive: names, modes or times differ"
	case "layer":
		return "the same content, compressed by another gzip: another Go release built it"
	case "manifest":
		return "the same layer with another configuration: version, commit, time or publisher differ"
	case "index":
		return "the same parts, listed in another way: platforms or annotations differ"
	}
	return "one of the two has this platform, the other one not"
}

// Compare tells where a rebuild differs from what was published: for each platform the innermost level, since what is
// around it differs with it, and the index where nothing else explains it. None is an equal release.
func Compare(published, rebuilt Record) []Difference {
	found := []Difference{}
	add := func(platform, level, theirs, ours string) {
		found = append(found, Difference{platform, level, theirs, ours, means(level)})
	}
	for _, p := range sorted(published.Platforms) {
		theirs := published.Platforms[p]
		ours, ok := rebuilt.Platforms[p]
		switch {
		case !ok:
			add(p, "platform", theirs.Manifest, "none")
		case theirs.Program != ours.Program:
			add(p, "program", theirs.Program, ours.Program)
		case theirs.Content != ours.Content:
			add(p, "content", theirs.Content, ours.Content)
		case theirs.Layer != ours.Layer:
			add(p, "layer", theirs.Layer, ours.Layer)
		case theirs.Manifest != ours.Manifest:
			add(p, "manifest", theirs.Manifest, ours.Manifest)
		}
	}
	for _, p := range sorted(rebuilt.Platforms) {
		if _, ok := published.Platforms[p]; !ok {
			add(p, "platform", "none", rebuilt.Platforms[p].Manifest)
		}
	}
	if len(found) == 0 && published.Index != rebuilt.Index {
		add("", "index", published.Index, rebuilt.Index)
	}
	return found
}

// String is a line for people.
func (d Difference) String() string {
	where := "the index"
	if d.Platform != "" {
		where = d.Platform + ", " + d.Level
	}
	return fmt.Sprintf("%s: published %s, rebuilt %s: %s", where, d.Theirs, d.Ours, d.Means)
}

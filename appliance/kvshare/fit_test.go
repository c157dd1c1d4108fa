package kvshare_test

import (
	"crypto/sha256"
	"testing"

	"viiwork/appliance/kvshare"
	"viiwork/appliance/mesh"
)

func links(words string) (all []mesh.Link) {
	for i := range words {
		sum := sha256.Sum256([]byte(words[:i+1]))
		all = append(all, mesh.Link(sum[:16]))
	}
	return all
}

// TestOfSeveralStatesTheBestIsTaken: the one that goes furthest along the prompt, and of those that began alike and went
// elsewhere the one with the least to move.
func TestOfSeveralStatesTheBestIsTaken(t *testing.T) {
	type state struct {
		words  string
		tokens int
	}
	for _, c := range []struct {
		name   string
		states []state
		want   int
	}{
		{"none", nil, -1},
		{"nothing in common", []state{{"xyz", 900}}, -1},
		{"the furthest", []state{{"head", 400}, {"head1", 500}, {"he", 900}}, 1},
		{"the one that ends there, not one that went elsewhere", []state{{"headX", 9000}, {"head", 400}, {"headY", 401}}, 1},
		{"the one with its answer", []state{{"head", 400}, {"head", 450}, {"head", 410}}, 1},
		{"of those that went elsewhere the shortest", []state{{"headXY", 9000}, {"headZ", 500}, {"headXYZ", 12_000}}, 1},
	} {
		var stays []mesh.Resident
		for _, s := range c.states {
			stays = append(stays, mesh.Resident{Chain: links(s.words), Tokens: s.tokens})
		}
		if got := kvshare.Fittest(links("head12"), stays); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

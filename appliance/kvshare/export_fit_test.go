package kvshare

import "viiwork/appliance/mesh"

// Fittest is the index of the state that does best for a prompt, -1 = none does.
func Fittest(prompt []mesh.Link, stays []mesh.Resident) int {
	at, best, index := places(prompt), fit{at: -1}, -1
	for i := range stays {
		if f := fitOf(&stays[i], at); f.at >= 0 && f.beats(best) {
			best, index = f, i
		}
	}
	return index
}

package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// class is a kind of backend: a card or a pair of them, with a middling model.
type class struct {
	slots    int
	prefill  float64 // tokens a second
	decode   float64 // tokens a second of one stream
	slowdown float64 // per further stream
	ram      float64 // bytes of the engine's prompt cache
}

const (
	gib = 1 << 30
	mib = 1 << 20
)

var (
	radeon  = class{slots: 2, prefill: 200, decode: 18, slowdown: 0.25, ram: 8 * gib}
	a4000   = class{slots: 4, prefill: 600, decode: 17, slowdown: 0.15, ram: 8 * gib}
	rtx5090 = class{slots: 4, prefill: 2500, decode: 60, slowdown: 0.20, ram: 32 * gib}
	mac     = class{slots: 1, prefill: 120, decode: 12, slowdown: 0.5, ram: 8 * gib}
)

// machine is one node: so many backends of a class.
type machine struct {
	class    class
	backends int
}

// fleet is machines and what their agents' work is like where it is not as everywhere.
type fleet struct {
	machines []machine
	work     Work
}

// Fleets are the names that Run knows.
func Fleets() []string { return []string{"blog", "mixed16", "two5090"} }

func named(name string) (fleet, error) {
	switch name {
	case "blog":
		return fleet{slices.Repeat([]machine{{radeon, 5}}, 4), UsualWork()}.with(0, machine{a4000, 1}), nil
	case "mixed16":
		return mixed(16), nil
	case "two5090":
		f := fleet{slices.Repeat([]machine{{rtx5090, 1}}, 2), UsualWork()}
		f.work.Head, f.work.Output = 10_000, 550
		return f, nil
	}
	return fleet{}, fmt.Errorf("there is no fleet %q: name one of %s", name, strings.Join(Fleets(), ", "))
}

// mixed is a fleet of what people have.
func mixed(n int) fleet {
	f := fleet{work: UsualWork()}
	for i := range n {
		switch i % 8 {
		case 0, 4:
			f.machines = append(f.machines, machine{a4000, 1})
		case 1:
			f.machines = append(f.machines, machine{rtx5090, 1})
		case 5:
			f.machines = append(f.machines, machine{mac, 1})
		default:
			f.machines = append(f.machines, machine{radeon, 4})
		}
	}
	return f
}

func (f fleet) with(i int, m machine) fleet {
	f.machines[i] = m
	return f
}

// sessions is how many agents make a load: at 1 their turns, all of them warm, would just fill all slots.
func (f fleet) sessions(load float64) int {
	full := 0.0
	for _, m := range f.machines {
		c := float64(m.class.slots)
		s := 0.3 + 700/m.class.prefill + 400/(m.class.decode/(1+m.class.slowdown*(c-1))) + (c-1)*700/m.class.prefill*0.85
		full += float64(m.backends) * c * (s + 14) / s
	}
	return int(math.Round(full * load))
}

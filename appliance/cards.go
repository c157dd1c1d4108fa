package appliance

import (
	"context"
	"slices"

	"viiwork/appliance/setup"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/gpu"
)

// hostAt is the machine under root, "" = this one.
func hostAt(root string) gpu.Host {
	if root == "" {
		root = "/"
	}
	return gpu.At(root)
}

// readCards reads the cards anew.
func (a *Appliance) readCards(ctx context.Context, cards []gpu.Card) ([]gpu.Card, []gpu.Fault) {
	if !setup.Borrows(a.host) {
		return a.host.Read(ctx, cards)
	}
	return readBorrowed(ctx, a.host, borrowed{cards: cards, models: a.engine.Snapshot(), exec: a.docker.Exec})
}

// borrowed is what there is to read from inside a container.
type borrowed struct {
	cards  []gpu.Card
	models []engine.ModelState
	exec   func(ctx context.Context, container, program string, args ...string) (string, error)
}

// readBorrowed asks each engine's container for its cards. It sees those alone, and counts them from 0, so they are known
// again by their UUID. NVIDIA cards without an engine stay without readings.
func readBorrowed(ctx context.Context, host gpu.Host, b borrowed) ([]gpu.Card, []gpu.Fault) {
	cuda, rest := part(b.cards, func(c gpu.Card) bool { return c.Accel == engine.AccelCUDA })
	read, faults := host.Read(ctx, rest)
	for _, m := range b.models {
		if m.Model.Runner != engine.RunnerDocker || m.Model.Accel != engine.AccelCUDA {
			continue
		}
		for _, backend := range m.Backends {
			if backend.Process == "" {
				continue
			}
			var own []gpu.Card
			own, cuda = part(cuda, func(c gpu.Card) bool { return slices.Contains(backend.GPUs, c.Index) })
			inside := host
			inside.Run = setup.Lent(host.Run, func(ctx context.Context, program string, args ...string) (string, error) {
				return b.exec(ctx, backend.Process, program, args...)
			})
			seen, wrong := inside.Read(ctx, own)
			read, faults = append(read, seen...), append(faults, wrong...)
		}
	}
	for _, c := range cuda {
		c.Reading = gpu.Reading{}
		read = append(read, c)
	}
	return inOrder(b.cards, read), faults
}

func part(cards []gpu.Card, in func(gpu.Card) bool) (those, others []gpu.Card) {
	for _, c := range cards {
		if in(c) {
			those = append(those, c)
		} else {
			others = append(others, c)
		}
	}
	return those, others
}

// inOrder puts cards into the order of those they are readings of.
func inOrder(like, cards []gpu.Card) []gpu.Card {
	at := func(c gpu.Card) int {
		return slices.IndexFunc(like, func(l gpu.Card) bool { return l.Accel == c.Accel && l.Index == c.Index })
	}
	slices.SortStableFunc(cards, func(x, y gpu.Card) int { return at(x) - at(y) })
	return cards
}

// cardWarnings says what is wrong with the cards now, beside what was when they were listed.
func (a *Appliance) cardWarnings(told []status.Warning) []status.Warning {
	for _, f := range a.live.Faults() {
		w := status.Warning{ID: "gpu", Text: f.Text, Fix: f.Fix}
		if !slices.Contains(told, w) {
			told = append(told, w)
		}
	}
	return told
}

// gpuStatus lists the cards with the models that run on them. Indices count within a family of cards.
func (a *Appliance) gpuStatus(models []engine.ModelState) []status.GPU {
	a.mu.Lock()
	memory := a.memory
	a.mu.Unlock()
	type place struct {
		accel engine.Accel
		index int
	}
	owner := map[place]string{}
	for _, m := range models {
		for _, b := range m.Model.Backends {
			for _, index := range b.GPUs {
				owner[place{m.Model.Accel, index}] = m.Model.Name
			}
		}
	}
	list := []status.GPU{}
	for _, c := range a.live.Cards() {
		g := status.GPU{
			Index: c.Index, Name: c.Name, Accel: string(c.Accel), Memory: c.Memory, Model: owner[place{c.Accel, c.Index}],
			Gfx: c.Gfx, PCI: c.PCI, Integrated: c.Integrated, Unified: c.Unified, Display: c.Display, Instances: c.Instances,
			Used: c.Reading.Used, Busy: c.Reading.Busy, Celsius: c.Reading.Celsius, Watts: c.Reading.Watts, CapWatts: c.Reading.CapWatts,
		}
		if t := c.Reading.Throttle; t != nil {
			g.ByHeat, g.ByPower = &t.Heat, &t.Power
		}
		if bytes := memory.Taken(c.Accel, c.Index); bytes > 0 {
			g.Planned = &bytes
		}
		list = append(list, g)
	}
	return list
}

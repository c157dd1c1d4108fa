package appliance

import (
	"context"
	"slices"

	"viiwork/engine"
	"viiwork/engine/gpu"
	"viiwork/engine/plan"
)

// room says, as an error, why a second engine of a model's backend on these cards cannot be held beside all that runs.
func (a *Appliance) room(ctx context.Context, m engine.Model, gpus []int) error {
	a.mu.Lock()
	memory := a.memory
	a.mu.Unlock()
	now := plan.Measured{Used: usedOf(a.live.Cards())}
	if free := a.host.Available(ctx); free != nil {
		now.Available = *free
	}
	return memory.Beside(m.Name, gpus, now)
}

// usedOf looks up what is taken of a card.
func usedOf(cards []gpu.Card) func(engine.Accel, int) (int64, bool) {
	return func(accel engine.Accel, index int) (int64, bool) {
		at := slices.IndexFunc(cards, func(c gpu.Card) bool { return c.Accel == accel && c.Index == index })
		if at < 0 || cards[at].Reading.Used == nil {
			return 0, false
		}
		return *cards[at].Reading.Used, true
	}
}

// beforeSwitch saves what lies in the slots of an engine that another one is about to replace.
func (a *Appliance) beforeSwitch(ctx context.Context, backend string) {
	a.caches.share.Save(ctx, backend)
}

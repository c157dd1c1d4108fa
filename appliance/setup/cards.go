package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"viiwork/appliance/config"
	"viiwork/engine"
	"viiwork/engine/gpu"
	"viiwork/images"
)

// checkCards looks at the cards that models name, at everything that is wrong with any card or driver, and whether
// Docker can hand cards to containers. made are the checks of images: an image that does not run proves nothing.
func checkCards(ctx context.Context, cfg *config.Config, env Probe, made []Check) []Check {
	wanted := map[int]string{}
	for _, m := range cfg.Models {
		for _, g := range m.GPUs {
			wanted[g] = m.Name
		}
	}
	cards, faults := env.Cards(ctx)
	named := checkNamed(wanted, cards, faults)
	checks := []Check{named}
	for _, f := range faults {
		state := Warn
		if named.State == Fail && !f.Minor {
			state = Fail
		}
		checks = append(checks, fault(state, "gpu:"+f.ID, [3]string{f.Text, causeOf(f), f.Fix}))
	}
	for _, g := range slices.Sorted(maps.Keys(wanted)) {
		if c, only := integratedOnly(cards, g); only {
			checks = append(checks, fault(Warn, "gpu:integrated", [3]string{
				fmt.Sprintf("card %d of %s is part of the processor", g, wanted[g]),
				c.Name + " has next to no memory of its own", "take it out of the model's gpus"}))
		}
	}
	if hasNVIDIA(cards) {
		checks = append(checks, checkHandedOn(ctx, cfg, env, made)...)
	}
	return checks
}

func causeOf(f gpu.Fault) string {
	switch {
	case f.ID == handedOn:
		return "this program runs in a container without nvidia-smi, and borrows an engine's"
	case f.PCI == "":
		return "the driver says so"
	}
	return "the driver says so of the card at " + f.PCI
}

// handedOn is about what Docker gives to containers.
const handedOn = "containers"

// checkNamed compares the cards that models name with those the drivers show. Indices count within a family of cards, so
// a name is believed when either family has it.
func checkNamed(wanted map[int]string, cards []gpu.Card, faults []gpu.Fault) Check {
	const id = "gpus"
	if len(wanted) == 0 {
		return skip(id, "no model names a graphics card"+thereAre(cards))
	}
	usable := map[int]bool{}
	for _, card := range cards {
		usable[card.Index] = usable[card.Index] || !card.Split
	}
	var missing []string
	for _, g := range slices.Sorted(maps.Keys(wanted)) {
		if !usable[g] {
			missing = append(missing, fmt.Sprintf("%d (%s)", g, wanted[g]))
		}
	}
	if len(missing) == 0 {
		return ok(id, fmt.Sprintf("all %d named cards are there", len(wanted))+thereAre(cards))
	}
	text := "these cards cannot be used: " + strings.Join(missing, ", ")
	if len(faults) == 0 {
		return fault(Fail, id, [3]string{text, "no driver shows them as whole cards" + thereAre(cards),
			"correct 'gpus' (indices as nvidia-smi or rocm-smi count them), or install the driver"})
	}
	var causes, fixes []string
	for _, f := range faults {
		causes, fixes = append(causes, f.Text), append(fixes, f.Fix)
	}
	return fault(Fail, id, [3]string{text, strings.Join(causes, "\n"), strings.Join(fixes, "\n")})
}

const cardsListed = 8 // of a machine's cards; a line is no place for 32

// thereAre lists the machine's cards: "; there are cuda 0 NVIDIA GeForce RTX 3090 (24.0 GiB), …".
func thereAre(cards []gpu.Card) string {
	var words []string
	for i, c := range cards {
		if i == cardsListed {
			words = append(words, fmt.Sprintf("%d more", len(cards)-i))
			break
		}
		size := "memory unknown"
		if c.Memory != nil {
			size = bytesWord(*c.Memory)
		}
		if c.Integrated {
			size += ", part of the processor"
		}
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %d %s", c.Accel, c.Index, c.Name))+" ("+size+")")
	}
	if len(words) == 0 {
		return ""
	}
	return "; there are " + strings.Join(words, ", ")
}

// integratedOnly tells whether the card of that index is part of the processor, in whichever family.
func integratedOnly(cards []gpu.Card, index int) (gpu.Card, bool) {
	var found gpu.Card
	for _, c := range cards {
		if c.Index != index {
			continue
		}
		if !c.Integrated {
			return gpu.Card{}, false
		}
		found = c
	}
	return found, found.Integrated
}

// checkHandedOn starts a container with all NVIDIA cards for each image that is to have some: that Docker lacks what it
// needs for that shows at no other time.
func checkHandedOn(ctx context.Context, cfg *config.Config, env Probe, made []Check) []Check {
	var tried []string
	for _, m := range cfg.Models {
		image := m.Llamacpp.Image
		runs := slices.ContainsFunc(made, func(c Check) bool { return c.ID == "image:"+image && c.State == OK })
		ref, err := images.Resolve(image)
		if m.Llamacpp.Runner != "docker" || len(m.GPUs) == 0 || !runs || err != nil || rocmImage(image) || slices.Contains(tried, image) {
			continue
		}
		tried = append(tried, image)
		if c := handOnce(ctx, env, ref); c.State != OK {
			return []Check{c}
		}
	}
	if len(tried) == 0 {
		return nil
	}
	return []Check{handsOn()}
}

// hasNVIDIA tells whether there are cards that Docker has to be set up for.
func hasNVIDIA(cards []gpu.Card) bool {
	return slices.ContainsFunc(cards, func(c gpu.Card) bool { return c.Accel == engine.AccelCUDA })
}

// handOnce starts a container of the image with all NVIDIA cards.
func handOnce(ctx context.Context, env Probe, ref string) Check {
	err := env.HandOn(ctx, ref)
	if err == nil {
		return handsOn()
	}
	if known := gpu.Faults(err.Error()); len(known) > 0 {
		f := known[0]
		return fault(Fail, "gpu:"+f.ID, [3]string{f.Text, err.Error(), f.Fix})
	}
	return fault(Fail, "gpu:"+handedOn, [3]string{"a container of " + ref + " was given no NVIDIA cards", err.Error(), "do as the cause says, or use runner: native"})
}

// handsOn is what is so where Docker is set up for cards.
func handsOn() Check { return ok("gpu:"+handedOn, "Docker hands NVIDIA cards to containers") }

// rocmImage tells by its name that an image is for AMD cards, as the node itself does.
func rocmImage(name string) bool {
	return strings.Contains(name, "rocm") || strings.Contains(name, "gfx")
}

package plan

import "fmt"

// What a prompt cache gets when the owner does not say.
const (
	leastCache   = 2 * gib
	mostCache    = 64 * gib
	cacheStep    = 256 * mib // of one smaller than usual
	unknownCache = 8 * gib   // where the size of RAM is not known: the engine's own choice
)

// caches shares the RAM that is left over the backends whose prompt cache was left open: all of it but 4 GiB, in whole
// GiB from 2 to 64 each. A machine that has not that much gives what there is.
func (p *Plan) caches() {
	l := p.ledger
	backends := int64(0)
	for _, m := range p.Models {
		if m.PromptCache < 0 {
			backends += int64(len(m.Groups))
		}
	}
	if backends == 0 {
		return
	}
	each := int64(unknownCache)
	if l.Memory > 0 {
		each = (l.Memory - l.ram - restOfAll) / backends / gib * gib
		each = min(max(each, leastCache), mostCache)
		if there := max(l.Memory-l.rest()-l.ram, 0) / backends; each > there {
			each = there / cacheStep * cacheStep
		}
		p.Notes = append(p.Notes, fmt.Sprintf("%s of RAM: %s for weights and what else engines keep there, prompt cache %s for each of %s",
			size(l.Memory), size(l.ram), size(each), count(int(backends), "backend")))
	}
	for i := range p.Models {
		if p.Models[i].PromptCache < 0 {
			p.Models[i].PromptCache = each
			l.ram += each * int64(len(p.Models[i].Groups))
		}
	}
}

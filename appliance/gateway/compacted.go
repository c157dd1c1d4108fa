package gateway

import (
	"slices"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

// recognise finds out what conversation the request goes on with, and notes in its row what can be said of that.
func (k *call) recognise() {
	k.g.engines() // or its home may be an engine that is gone
	k.home = k.findHome()
	if k.source == sourceNone && (k.home.known && k.found.ByPrefix || k.hop != nil && k.hop.prefix) {
		k.source = sourcePrefix
		k.ans.know(headKey, k.source)
		k.row.update(func(r *status.Request) { r.KeySource = sourcePrefix })
	}
	if k.rewritten() {
		k.row.update(func(r *status.Request) { r.Compacted = true })
	}
}

// rewritten tells whether the request's session has had its history rewritten to a shorter one since its last turn. No
// placement helps such a turn, so it is accounted apart. A session may have several conversations: one that the
// request goes on with says that none was.
func (k *call) rewritten() bool {
	if k.session == "" || !k.found.Known {
		return false
	}
	prompt, rewritten := k.g.rates.prompt(k.model, k.begins, k.found.Matched, k.found.Counted), false
	for _, old := range k.g.known.Stays(k.model, k.session) {
		if n := len(old.Chain); n > 0 && slices.Contains(k.begins.Links, old.Chain[n-1]) {
			return false
		}
		rewritten = rewritten || compacted(old, k.begins.Links, prompt)
	}
	return rewritten
}

// minHistory is how many steps a conversation has at least for its history to be called rewritten.
const minHistory = 4

// compacted tells whether a prompt of so many tokens has the history of an old one rewritten to a shorter one. The old one's
// cache is worth little more than the head, wherever the prompt runs. A side request of the same session has another
// head, an edited last message keeps most of the history.
func compacted(old mesh.Resident, now []mesh.Link, prompt int) bool {
	if len(old.Chain) < minHistory || len(now) == 0 || now[0] != old.Chain[0] {
		return false
	}
	head := old.Marks[0]
	had, has := old.Tokens-head, prompt-head
	if 4*has >= 3*had {
		return false
	}
	kept := make(map[mesh.Link]bool, len(now))
	for _, l := range now {
		kept[l] = true
	}
	n := len(old.Chain) - 1
	for !kept[old.Chain[n]] {
		n--
	}
	return n < len(old.Chain)-1 && 2*(old.Marks[n]-head) < had
}

package plan

// Measure takes what a backend of a loaded model was seen to hold of each of its cards, by their index, for what its
// buffers take beside weights and KV cache. It is never more than what fits: a layout that ran must not be refused at its next
// start for what the driver itself holds. ok is false where nothing follows: a card was not seen, or its figures are less
// than what must be there.
func Measure(machine Machine, m Model, group []int, held map[int]int64) (b Beside, ok bool) {
	l := newLedger(machine)
	m = m.sane()
	m.Groups = [][]int{group}
	places := l.places(m)[0]
	if !m.known() || m.ByHand || len(group) == 0 || len(places) != len(group) {
		return Beside{}, false
	}
	rooms := make([]int64, len(group))
	for i, at := range places {
		if rooms[i] = l.Cards[at].room(); l.Cards[at].Memory == 0 || l.Cards[at].Shared {
			return Beside{}, false
		}
	}
	for i, s := range m.shares(rooms) {
		bytes, seen := held[group[i]]
		rest := min(bytes, rooms[i]) - s.weights - s.kv
		if !seen || rest <= 0 || bytes > l.Cards[places[i]].Memory {
			return Beside{}, false
		}
		b.Bytes = max(b.Bytes, rest)
	}
	b.Tokens = m.Slots * m.Context
	return b, true
}

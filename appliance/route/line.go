package route

// shortest is the node at which to wait, nil if no line takes anybody: the home, since what it has cached is worth a
// wait; else the one where the wait is shortest. A node that has not told how long requests hold its slots is taken to be
// like the others. Between equals this node goes first, else they take turns.
func shortest(nodes []*Node, r Request) *Node {
	usual := usualHold(nodes)
	var best []*Node
	least := 0.0
	for _, n := range nodes {
		if n.LineFull {
			continue
		}
		if n.ID == r.Home {
			return n
		}
		wait := n.wait(usual)
		switch {
		case len(best) == 0 || wait < least:
			least, best = wait, []*Node{n}
		case wait == least:
			best = append(best, n)
		}
	}
	if len(best) == 0 {
		return nil
	}
	for _, n := range best {
		if n.Local {
			return n
		}
	}
	return best[r.Seed%uint64(len(best))]
}

// wait is the seconds until one more gets a slot.
func (n *Node) wait(usual float64) float64 {
	slots := 0
	for _, b := range n.Backends {
		if b.Ready {
			slots += b.Slots
		}
	}
	hold := n.Hold.Seconds()
	if hold == 0 {
		hold = usual
	}
	return hold * float64(n.Waiting+1) / float64(max(1, slots))
}

// usualHold is the mean of the nodes that know how long requests hold their slots, 1 s when none does.
func usualHold(nodes []*Node) float64 {
	sum, known := 0.0, 0
	for _, n := range nodes {
		if n.Hold > 0 {
			sum += n.Hold.Seconds()
			known++
		}
	}
	if known == 0 {
		return 1
	}
	return sum / float64(known)
}

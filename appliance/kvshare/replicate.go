package kvshare

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/mesh"
)

const (
	// copyEvery is how often it is looked for conversations that only their home has.
	copyEvery = time.Second
	// copyWithin bounds one copy. What came until then is not fetched again.
	copyWithin = 5 * time.Minute
)

// replicate brings here what a home alone has, if this is the node that is to have the second copy; where nothing is replicated,
// what one has that is about to go. All nodes choose the second one in the same way, so nobody has to ask anybody.
func (s *Share) replicate(ctx context.Context) {
	tick := time.NewTicker(copyEvery)
	defer tick.Stop()
	failed := map[mesh.Link]time.Time{} // by where they end: not tried again for a while, but further on they are others
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, lone := range s.cfg.Known.Lone() {
			leaving := s.leaving(lone.Node)
			if ctx.Err() != nil {
				break
			}
			if !leaving && (s.cfg.Mode != Replicate || s.Working()) { // who answers requests has better things to do
				continue
			}
			last := lone.Chain[len(lone.Chain)-1]
			if at, again := failed[last]; again && s.now().Sub(at) < copyWithin {
				continue
			}
			if !s.copyOf(ctx, lone) {
				failed[last] = s.now()
			}
		}
		for last, at := range failed {
			if s.now().Sub(at) >= copyWithin {
				delete(failed, last)
			}
		}
	}
}

func (s *Share) leaving(id string) bool {
	net := s.net.Load()
	return net != nil && net.Leaving != nil && net.Leaving(id)
}

// Working tells whether an engine of this node has a request.
func (s *Share) Working() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.benches {
		if b.running > 0 {
			return true
		}
	}
	return false
}

// copyOf fetches one replica if it is this node's to have; it reports whether there is no need to wait before the next try.
func (s *Share) copyOf(ctx context.Context, lone mesh.Lone) bool {
	net := s.net.Load()
	if net == nil {
		return true
	}
	key, ok := s.keyOf(lone.Model)
	from, there := net.Member(lone.Node)
	if !ok || !there || s.off(lone.Model, key.Build) || !chosen(net.ID, lone, net.Kin(lone.Model, kindOf(key))) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, copyWithin)
	defer cancel()
	_, err := s.bring(ctx, from, &restored{key: key, from: from.Name, prompt: lone.Chain}, lone.Resident)
	s.holdTo(from, lone.Tokens, err)
	if err != nil && ctx.Err() == nil {
		s.log.Info("a second copy of a conversation's cache could not be made", "from", from.Name, "error", err)
	}
	return err == nil
}

// chosen tells whether self is to have the second copy: of all that could, but for who has the first, the one whose id makes
// the largest digest with the replica's name (rendezvous hashing).
func chosen(self string, lone mesh.Lone, kin []string) bool {
	weight := func(id string) []byte {
		sum := sha256.Sum256([]byte(lone.Replica + "|" + id))
		return sum[:]
	}
	own, among := weight(self), false
	for _, id := range kin {
		among = among || id == lone.Node
		if id != lone.Node && id != self && bytes.Compare(weight(id), own) > 0 {
			return false
		}
	}
	return among
}

// keyOf is the key of a model's states on this node.
func (s *Share) keyOf(model string) (replica.Key, bool) {
	for _, m := range s.cfg.Engine.Snapshot() {
		for i := 0; m.Model.Name == model && i < len(m.Backends); i++ {
			if k, ok := s.key(model, m.Backends[i].ID); ok {
				return k, true
			}
		}
	}
	return replica.Key{}, false
}

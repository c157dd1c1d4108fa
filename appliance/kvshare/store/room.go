package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"viiwork/appliance/kvshare/replica"
)

// room promises n bytes to the writer of a replica, and deletes what was used longest ago until there are so many. The
// predecessor of what is written goes last of all. Its error is [ErrNoRoom].
func (s *Store) room(n int64, of id) error {
	tried := map[*pack]bool{}
	for {
		free, floor := s.disk()
		s.mu.Lock()
		if s.used+n <= s.cfg.Budget && free-n >= floor {
			s.used += n
			s.mu.Unlock()
			return nil
		}
		var p *pack
		can := free+s.used-n >= floor // else nothing that is given up would be enough
		if can {
			p, can = s.yield(of, tried)
		}
		used := s.used
		s.mu.Unlock()
		if !can {
			return fmt.Errorf("%w: %d bytes of the disk are free, %d of the store's %d are used", ErrNoRoom, free, used, s.cfg.Budget)
		}
		if p != nil {
			tried[p] = true
			if err := s.rewrite(p); err != nil {
				s.cfg.Log.Debug("a pack is not written anew", "error", err)
			}
		}
	}
}

// yield gives up the next best thing: it has done so, or names a pack to be written anew. Called with mu.
func (s *Store) yield(of id, tried map[*pack]bool) (*pack, bool) {
	if len(s.leftover) > 0 {
		s.release(s.leftover[0].places)
		s.leftover = s.leftover[1:]
		return nil, true
	}
	if p := s.emptiest(tried); p != nil && p.live < p.size/2 {
		return p, true
	}
	if i, ok := s.oldest(of); ok {
		s.cfg.Log.Debug("a replica makes room for another", "bytes", s.replicas[i].Bytes)
		s.drop(i)
		return nil, true
	}
	p := s.emptiest(tried)
	return p, p != nil
}

// emptiest is the pack of which the least is needed, if any is not full of what is.
func (s *Store) emptiest(tried map[*pack]bool) *pack {
	var found *pack
	share := func(p *pack) float64 { return float64(p.live) / float64(p.size) }
	for _, p := range s.packs {
		if !p.taken && !tried[p] && !p.needed() && (found == nil || share(p) < share(found)) {
			found = p
		}
	}
	return found
}

// oldest is the replica that was used longest ago. One that is being replaced stays as long as there are others.
func (s *Store) oldest(of id) (id, bool) {
	var found id
	ok := false
	for i, r := range s.replicas {
		if s.writing[i] > 0 && i != of {
			continue
		}
		if !ok || found == of || i != of && r.LastUsed.Before(s.replicas[found].LastUsed) {
			found, ok = i, true
		}
	}
	return found, ok
}

// rewrite copies what is needed of a pack to a new one and deletes it.
func (s *Store) rewrite(old *pack) error {
	s.mu.Lock()
	if old.taken || old.gone {
		s.mu.Unlock()
		return nil
	}
	old.taken = true
	var moving []*place
	for _, p := range s.chunks {
		if p.pack == old {
			moving = append(moving, p)
			p.holds++ // so that it stays the same one
		}
	}
	s.mu.Unlock()
	slices.SortFunc(moving, func(a, b *place) int { return cmp.Compare(a.at, b.at) })
	to, at, err := s.copyOut(old, moving)

	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range moving {
		if err == nil && at[i] > 0 && !p.bad {
			old.live -= p.record()
			to.live += p.record()
			p.pack, p.at = to, at[i]
		}
	}
	s.release(moving)
	for _, p := range []*pack{to, old} {
		if p == nil {
			continue
		}
		p.taken = false
		if !p.needed() {
			s.discard(p)
		}
	}
	if err != nil {
		return fmt.Errorf("writing a pack anew: %w", err)
	}
	return nil
}

// copyOut copies chunks to a new pack, which the caller gives back, and says where they are. One that is not what it was
// takes its replicas along.
func (s *Store) copyOut(old *pack, chunks []*place) (*pack, []int64, error) {
	if len(chunks) == 0 {
		return nil, nil, nil
	}
	to, err := s.newPack()
	if err != nil {
		return nil, nil, err
	}
	at, end, buf := make([]int64, len(chunks)), int64(len(packMark)), make([]byte, replica.MaxChunk)
	for i, p := range chunks {
		b, damage := s.read(spot{replica.Chunk{Sum: p.sum, Size: p.size}, old, p.at}, buf)
		if damage != nil {
			continue
		}
		if _, err = to.file.WriteAt(append(frame(p.sum, p.size), b...), end); err != nil {
			break
		}
		at[i] = end + int64(recordFrame)
		end += p.record()
	}
	if err == nil {
		err = to.file.Sync()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += end - to.size
	to.size = end
	return to, at, err
}

// tidy deletes what is too old. A pack of which most is not needed is written anew, and after MaxAge any of which
// something is not: what was deleted is then off the disk.
func (s *Store) tidy(ctx context.Context) {
	for _, p := range s.expire() {
		if ctx.Err() != nil {
			return
		}
		if err := s.rewrite(p); err != nil {
			s.cfg.Log.Debug("what was deleted of replicas still takes room", "error", err)
		}
	}
}

// expire ends the holds of what is too old and lists the packs to be written anew.
func (s *Store) expire() []*pack {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.replicas {
		if s.expired(r) && s.writing[i] == 0 {
			s.drop(i)
		}
	}
	now := s.cfg.Now()
	s.leftover = slices.DeleteFunc(s.leftover, func(l leftover) bool {
		if now.Before(l.until) {
			return false
		}
		s.release(l.places)
		return true
	})
	var worn []*pack
	for _, p := range s.packs {
		if !p.taken && (p.live < p.size/2 || !p.since.IsZero() && now.Sub(p.since) >= s.cfg.MaxAge) {
			worn = append(worn, p)
		}
	}
	return worn
}

package images

import (
	"context"
	"crypto/rand"
	"strings"

	"viiwork/images/papers"
)

// arrivals is the name by which Docker has what was loaded and not yet looked at.
const arrivals = "viiwork-arrived:"

// arrival is a name that nobody else has, for an image that is about to be loaded, and what takes it away again. It is written
// down for as long: a fetch that is killed leaves its image to the next one.
func (s *Stock) arrival(ctx context.Context, digest string) (name string, forget func(), err error) {
	tag := strings.TrimPrefix(digest, "sha256:")[:12] + "-" + strings.ToLower(rand.Text()[:8])
	done, err := s.cfg.Papers.Announce(tag)
	if err != nil {
		return "", nil, err
	}
	return arrivals + tag, func() {
		done(s.cfg.Loader.ForgetImage(context.WithoutCancel(ctx), arrivals+tag) == nil)
	}, nil
}

// clear removes what fetches of this node have left that were killed. Docker keeps an image that a container uses, or that has
// another name; what cannot be removed now is tried again by the next fetch.
func (s *Stock) clear(ctx context.Context) {
	if s.cfg.Loader == nil || s.cfg.Papers == (papers.Folder{}) {
		return
	}
	s.cfg.Papers.Abandoned(func(tag string) bool {
		return s.cfg.Loader.ForgetImage(ctx, arrivals+tag) == nil
	})
}

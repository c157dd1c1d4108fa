package sim

import (
	"context"
	"sync"
)

// Table simulates several policies with one and the same work, two at a time. None named means all.
func Table(ctx context.Context, cfg Config, policies ...Policy) ([]Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(policies) == 0 {
		policies = Policies()
	}
	results := make([]Result, len(policies))
	errs := make([]error, len(policies))
	next := make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range next {
				c := cfg
				c.Policy = policies[i]
				results[i], errs[i] = Run(ctx, c)
			}
		})
	}
	for i := range policies {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

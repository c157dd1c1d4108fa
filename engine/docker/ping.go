package docker

import "context"

// Ping asks whether Docker answers this user at all. The error says what to do.
func (r *Runner) Ping(ctx context.Context) error {
	if r.clientErr != nil {
		return r.explain(r.clientErr)
	}
	if _, err := r.cli.Ping(ctx); err != nil {
		return r.explain(err)
	}
	return nil
}

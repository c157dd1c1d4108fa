package store

import "context"

// Tidy is what Run does each minute.
func (s *Store) Tidy(ctx context.Context) { s.tidy(ctx) }

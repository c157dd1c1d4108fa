//go:build !linux

package native

import (
	"context"
	"time"
)

// awaitEnd returns after a moment, or when ctx has ended: here the system tells of an end to parents only, so the
// caller looks again and again.
func awaitEnd(ctx context.Context, _ int, d time.Duration) { sleep(ctx, min(d, lookEvery)) }

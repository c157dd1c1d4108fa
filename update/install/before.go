package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// beforeWithin is how long a node may take to show how it is before a switch.
const beforeWithin = 5 * time.Minute

// Observe notes how a node is before a switch: what serves, and which of its models answer. A new version is held to that.
// Said is told of each model that does not answer even now.
func Observe(ctx context.Context, n Node, said func(string)) Before {
	ctx, cancel := context.WithTimeout(ctx, beforeWithin)
	defer cancel()
	is, err := n.Look(ctx)
	if err != nil {
		return Before{}
	}
	b := Before{PID: is.PID, Version: is.Version, Ready: is.Ready}
	for _, model := range slices.Sorted(maps.Keys(is.Ready)) {
		asking, done := context.WithTimeout(ctx, answerWithin)
		err := n.Complete(asking, model)
		done()
		if err == nil {
			b.Answered = append(b.Answered, model)
		} else {
			said(fmt.Sprintf("%s does not answer now, so the new version need not either: %s", model, Clip(err.Error())))
		}
	}
	return b
}

// Lacks says which models are not as ready now as they were before, in words; "" = all are.
func (b Before) Lacks(now map[string]int) string {
	var short []string
	for model, n := range b.Ready {
		if now[model] < n {
			short = append(short, fmt.Sprintf("%s has %d of %d backends", model, now[model], n))
		}
	}
	slices.Sort(short)
	return strings.Join(short, ", ")
}

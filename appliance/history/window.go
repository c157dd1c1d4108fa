package history

import (
	"slices"
	"time"

	"viiwork/appliance/status"
)

// window is when the first figure of an hour or a day that ends now is from, and the time from one to the next, both in seconds.
func window(now time.Time, day bool) (first, secs int64) {
	if !day {
		secs = int64(step / time.Second)
		return now.Unix()/secs*secs - int64(fineRows-1)*secs, secs
	}
	secs = int64(coarse / time.Second)
	return now.Unix()/secs*secs - int64(coarseRows)*secs, secs // the minute that is not over is none yet
}

// Aligned puts figures that another node gave just now, as those of an hour or a day, at the times of this node: by its own
// clock, which may be years off, they would stand beside nobody else's. Lines of another length are none of such figures.
func Aligned(theirs status.Series, now time.Time, day bool) status.Series {
	first, secs := window(now, day)
	all := fineRows
	if day {
		all = coarseRows
	}
	theirs.From, theirs.Step = first, int(secs)
	theirs.Lines = slices.DeleteFunc(theirs.Lines, func(l status.Line) bool { return len(l.Values) != all })
	if theirs.Lines == nil {
		theirs.Lines = []status.Line{}
	}
	return theirs
}

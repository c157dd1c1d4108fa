// Package route decides which backend answers a request. It is arithmetic and nothing else: no clock, no network, no
// log, so that what it decides can be tested over every state a mesh can be in, and simulated over days in seconds
// ([viiwork/appliance/route/sim] does).
//
// A [Snapshot] is how one model stands over the mesh at one moment, a [Request] what one client wants, and [Pick] gives
// the [Plan]: a backend with a free slot, or to wait, or that nobody serves the model. A plan is a guess from figures
// that may be a moment old: the node named may still refuse, and then the caller picks again.
//
// Two policies. [Cost] guesses for every backend how long the answer would take there, in seconds, and takes the least:
// what is not cached there must be computed, others slow it down, a full one must be waited for. So it waits where the
// conversation is as long as that is the shorter way, and not longer. [Classic] looks at free slots and at how fast
// nodes have been lately.
//
// It promises: never a node that is not ready, drains, is in quarantine, has just refused or has not spoken lately;
// never one that was tried; a backend that is named but not waited for has a free slot by all that is known. A figure
// that cannot be, whoever told it, counts as unknown: the worst a liar gets is a request too many or too few.
//
// All of it may be called from any goroutine.
package route

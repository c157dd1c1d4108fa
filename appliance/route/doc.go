// Package route decides which node answers a request. It is arithmetic and nothing else: no clock, no network, no log,
// so that what it decides can be tested over every state a mesh can be in.
//
// A [Snapshot] is how one model stands over the mesh at one moment, a [Request] what one client wants, and [Pick] gives
// the [Plan]: a node with a free slot, or to wait, or that nobody serves the model. A plan is a guess from figures that
// may be a moment old: the node named may still refuse, and then the caller picks again.
//
// It promises: never a node that is not ready, drains, is in quarantine, has just refused or has not spoken lately;
// never one that was tried; a node that is named but not waited for has a free slot by all that is known.
//
// All of it may be called from any goroutine.
package route

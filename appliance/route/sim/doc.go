// Package sim plays a fleet and its agents by the second, to measure what a placement policy is worth before it decides
// over anybody's real work.
//
// It is a discrete-event simulation: nodes with engines (slots, prompt caches, prefill and decode speeds), what entries
// know of them (a second old), lines, and coding agents that come back with ever longer prompts. Policies that the
// product has are the product's own code, [route.Pick]; the others are there to compare. The same seed gives the same
// figures on every machine, and the same sessions to every policy.
//
// Caches that move cost what they do in a fleet: an engine stands still, with all its streams, while a slot of it is saved or
// read back; links take their time, one cache after the other. So slots are saved as the product saves them: before another
// conversation takes one, when it has been idle for a while, or when another node asks for it, each only if it pays.
//
// It does not model several models on a node, parallel requests of one session, nodes that die, or what an engine does
// beside slots: its figures compare policies, they do not foretell a fleet's.
package sim

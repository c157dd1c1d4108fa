// Package sim plays a fleet and its agents by the second, to measure what a placement policy is worth before it decides
// over anybody's real work.
//
// It is a discrete-event simulation: nodes with engines (slots, prompt caches, prefill and decode speeds), what entries
// know of them (a second old), lines, and coding agents that come back with ever longer prompts. Policies that the
// product has are the product's own code, [route.Pick]; the others are there to compare. The same seed gives the same
// figures on every machine, and the same sessions to every policy.
//
// It does not model several models on a node, parallel requests of one session, nodes that die, or what an engine does
// beside slots: its figures compare policies, they do not foretell a fleet's.
package sim

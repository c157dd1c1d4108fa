// Package bench measures a fleet that runs: coding agents, the very ones that the simulator has, ask it over HTTP as any
// client would, and what came of each turn is counted.
//
// [KV] sends conversations from node to node and compares what that took with computing their prompts anew.
//
// What a turn found in a cache is the engine's own count, where it ran is what the answer's headers say. Nothing that an
// entry sends is believed to be short, true or printable: it is bounded, and checked before it is shown.
//
// [Run] owns its goroutines and returns when they have ended. [Config.Ended] is called by one of them at a time. [KV.Run] has none:
// its functions are called by its caller's. A [Report] and a [KVReport] are plain values: anybody may read them.
package bench

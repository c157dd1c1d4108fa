// Package history remembers how a node has been: figures over time, how long first tokens took, who asked for how much. It is
// kept in one folder, at most 16 MiB of it, and outlives restarts.
//
//   - Series: a figure every 10 s for an hour and, of each minute, the mean for a day, in rings of a fixed size (rings.go).
//   - Turns: how each request of the last day began, in two logs that replace each other (turns.go).
//   - Uses: requests and tokens by origin and day, for eight days, and the energy of the cards (uses.go).
//
// What is not known is absent: a time in which the node did not run has no zeros. A file that is broken, or somebody
// else's, costs what it holds and nothing else.
//
// All methods may be called from any goroutine. Ended never waits for the disk; Run writes.
package history

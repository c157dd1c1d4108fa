// Package releases lets a node take the parts of a release from members that have fetched them before: a [Server] gives away
// what lies on this node's shelf, a [Fetcher] asks the others.
//
// All that a server says is signed by the mesh, and none of it is believed: a part is put on the shelf only if it has the
// digest that was asked for, and index and proofs are verified by whoever asked for them. A server opens nothing but parts on
// its shelf, by their digests, and has no more than two pieces in memory.
//
// Both are used from any goroutine and own none.
package releases

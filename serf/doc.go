// Package serf knows which machines of the mesh are alive: every node gossips with the others (HashiCorp Serf) over a
// [Network] that its caller brings, which is the tailnet device, the host's own network, or a test.
//
// It promises: a machine that leaves is seen to leave within a second or two; one that dies is seen as failed within
// ten; two halves that were cut from each other are one again after a [Cluster.Join] of one address on the other side;
// a restarted node finds its mesh by itself from a small file in its state folder. With a key, every message is
// encrypted, and who has another key changes nothing and is named in [Cluster.Warnings].
//
// It does not promise that a living member answers requests, nor that it may be routed to: that is told by fresher
// news than gossip. It does not protect the mesh from its members either: who holds the key, or is let into an open
// mesh, may say anything about anyone. What such a peer says is bounded in size and number, and an address it claims
// is used as a bare IP address or not at all.
//
// A node is known by its ID, which is its device's and never changes, and called by its Name. IDs are unique by
// construction, names because the owner chose them so: when two living machines have one name, the newcomer gives up
// with [ErrNameTaken].
//
// All exported methods may be called from any goroutine. New starts nothing; Run owns the goroutines of the package,
// and ends those of the library with it (a probe under way may need a last second or two to notice).
package serf

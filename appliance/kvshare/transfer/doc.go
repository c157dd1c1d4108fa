// Package transfer carries the states of conversations between the nodes of a mesh: a manifest, signed by who sends it, and
// then the chunks that the receiver lacks, each of which proves by its digest to be the right one.
//
// Chunks come by one of two paths. The mesh's own is always there; on a tailnet it is a userspace network stack, slow and
// hungry for memory, and so is asked for a little at a time. The direct one leads straight to an address of the other machine:
// TLS 1.3 between certificates that live as long as the process, each pinned by a fingerprint that came over the signed mesh.
// Who did not come by there first is not answered. A [Client] measures both with what it has to fetch anyway, goes on by the
// faster, and where one breaks off, resumes on the other at the chunk it had come to.
//
// It promises nothing about time: a transfer ends with its context. It does not keep what came, and decides nothing about
// when to move a state.
//
// A [Client] and a [Server] are used from any goroutine. [Server.Run] owns the direct path's listeners; the mesh's own is its
// caller's.
package transfer

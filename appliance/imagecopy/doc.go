// Package imagecopy lets a node take the image of an engine from a member that has fetched it before: a [Server] gives away
// what this node's Docker holds and its papers prove, a [Fetcher] asks the others.
//
// The server has Docker save an image when somebody asks for its layers, and lays them out as files, each held against its
// digest; they are given away in pieces of 1 MiB, and removed when nobody has asked for a while. One image is laid out at a
// time, and no more than two pieces are in memory. Nothing but images of the node's own book is given away, to living members alone.
//
// All that a server says is signed by the mesh, and none of it is believed: the papers are checked against the digest that
// was asked for, and each layer against them, by whoever asked.
//
// Both are used from any goroutine. [Server.Run] owns the goroutine that lays images out.
package imagecopy

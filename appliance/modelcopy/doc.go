// Package modelcopy brings a model's files from one member of the mesh to another: a [Server] gives them away, a [Copier]
// asks for them and puts them into a folder.
//
// Everything the server says is signed by the mesh: the list of files, and then each piece of 4 MiB, so nothing that came is ever another's.
// A file arrives under its name with ".part" behind it, beside a record of what it is to become, and goes on from there after
// a cut, also from another member that has the same. It gets its own name only when the SHA-256 of all its bytes, read from
// the disk on the other side, is that of what was written here, and the digest by which the mesh knows the model is the right one, too.
// What lies under that name already is never replaced.
//
// The server opens nothing outside of the folder it is given, symlinks that lead out of it included, and holds no more than
// a few pieces in memory. Both sides go slower while their node answers requests.
//
// A [Server] and a [Copier] are used from any goroutine. [Server.Run] owns the goroutine that reads files for their SHA-256.
package modelcopy

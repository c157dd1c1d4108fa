// Package web is what a node shows in a browser: pages of the mesh, and one stream of their changes.
//
// Every page is whole as it comes from the node and says what it has to without a script. Scripts keep it up to date: they
// listen to GET /api/events, which tells all that the pages show as flat rows ([status.Board]), first as a snapshot and
// then what has changed in it, once a second at most. One goroutine makes the board and its changes for however many
// browsers; each has a short line of what it has not read yet, and who does not read is let go and begins with a new snapshot.
// Nobody who listens holds up anybody who has something to tell.
//
// Nothing is loaded from anywhere but the node: policy says so to the browser. Whatever a name holds is text.
//
// The package knows nothing of requests, engines or members. It shows what the functions of its Config give.
package web

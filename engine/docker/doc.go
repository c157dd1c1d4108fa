// Package docker runs engines as containers, by the Docker API (engine 20.10 to current, the version is negotiated).
//
// Each backend is one container: its root file system is read-only, it has no capabilities, it runs as the node's own
// user, sees the model's folders read-only and its slot folder writable, all at the paths they have on the host, and
// answers on a port published to 127.0.0.1 only. The image's own entrypoint must be llama-server.
//
// Containers carry labels that name the node's state folder; only containers with that label are ever listed, stopped
// or removed. They have no restart policy: the engine package decides when one starts again. A container outlives the
// node and is found by the next one over the same state folder.
//
// A [Runner] may be used from any goroutine and owns none. It connects with the first call, so a machine without
// Docker can still build one.
package docker

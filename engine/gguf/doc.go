// Package gguf says what a model file is: its architecture, its trained context, its size over all shards and what a
// token costs in KV cache. And, before any engine is started on it, what is wrong with it: missing, unreadable, a
// directory, not a model, cut short by a broken download, a shard that is not there.
//
// Files come from strangers. Two readers share the work: a walk of our own over the header ([Read] does it first) that
// allocates nothing the file asks for and checks every count, length and offset against fixed bounds and the file's
// end; and then gguf-parser-go, which knows what the keys of a hundred architectures mean, but believes the numbers it
// reads and panics on types it did not expect.
//
// Read may be called from any goroutine and starts none.
package gguf

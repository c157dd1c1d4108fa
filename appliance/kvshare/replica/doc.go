// Package replica knows what the saved state of an engine's slot is made of: whose it is, which tokens it holds, and how
// it is cut into chunks, so that what a conversation gained by a turn is all that the next save adds.
//
// [Read] looks at a file as llama-server writes it, [State.Cut] cuts and hashes it in one pass, and the [Manifest] that
// comes of it is what nodes tell each other: a list of chunks by their SHA-256, and a chain of digests by which two nodes
// compare what they hold without telling a token. A file that is not understood is cut by its content: it costs more
// bytes at the next save and is not less right, since a replica is put together again from the same chunks in the same
// order, whatever they mean.
//
// The package is pure: it reads what it is given, keeps nothing and starts nothing, and every function may be called from
// any goroutine. Files and manifests are taken for hostile: a size is believed only after it was held against a bound and
// against what is there.
package replica

// Bounds of what is read and of what a manifest may say.
const (
	MaxSize   = 64 << 30 // bytes of a state
	MaxChunk  = 1 << 20  // bytes of one chunk
	MaxChunks = 400_000  // chunks of a state
	MaxTokens = 4 << 20  // tokens of a state
)

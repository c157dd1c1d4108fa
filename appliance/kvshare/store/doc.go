// Package store keeps replicas on this machine's disk: the states of conversations, as chunks that successive states and
// different conversations share.
//
// Chunks are appended to pack files, each behind its size and its SHA-256; a replica is a file with a manifest, which
// appears by a rename when all its chunks are on the disk. So a replica is there whole or not at all, its predecessor
// stays until then, and who reads the predecessor reads it to its end. What a crash leaves behind is cut off or thrown
// away by [Open]; chunks of a transfer that broke off stay for a while, and it goes on where it stopped.
//
// Every chunk is checked against its hash before it leaves the store. One that fails takes the replicas that need it along.
// The store holds a budget of bytes and leaves the disk some room; what was used longest ago goes first, and what nobody
// used for a day goes anyway: a KV cache is a conversation.
//
// A Store may be used from any goroutine, several saves, arrivals and readers at one time. Its folder belongs to one
// process; nothing outside it is touched. [Store.Run] is its only goroutine of its own.
package store

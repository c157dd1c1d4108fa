// Package enginetest is a llama-server for tests: a fake one that behaves, the tools to find and start a real one, and
// a writer of tiny model files that the real one loads.
//
// The fake ([Server]) has slots and a queue without limit, chooses slots by longest common prefix, keeps a prompt
// cache, takes time for prefill and decoding, saves slots to files while all else stands still, streams in the shapes
// of every route, and notices a client that left exactly as late as the real one. One byte of a prompt is one token,
// and each ChatML mark is one, just as with the models of [WriteGGUF]. The package's own tests hold it against the real
// server by one shared table.
//
// What it leaves out: sampling (its text is a function of the prompt), tools, images, grammars, speculative decoding,
// and slots that slow each other down.
//
// Faults can be set while it runs ([Server.SetFaults]), and what it saw can be read ([Server.Stats],
// [Server.Requests]). All exported methods may be called from any goroutine.
//
// [Main] is the same server as a program, for tests of whatever starts programs.
package enginetest

// Package llama speaks llama-server: which flags a build of it wants, and what its HTTP interface says about health,
// context and slots. It is the only package that knows them; the rest of viiwork sees an engine.Dialect.
//
// Flags are never taken from memory: they move between builds, and an unknown one ends the server at once. So
// [Dialect.Build] reads the program's own --version and --help, and [Dialect.Flags] uses, of several spellings of one
// wish, the first that this build knows. The owner's own flags are checked against the same list, and those that would
// take the engine out of viiwork's hands (its address, its key, its slots) or let a request run programs are refused.
//
// The HTTP half also meets servers of other makes behind the external runner. Whatever they lack is a zero value or a
// fallback, never a guess. Everything read from an engine is bounded and treated as hostile; no error text carries the
// engine's key.
//
// A Dialect has no state of its own: all methods may be called from any goroutine, and none starts one that outlives
// the call. Time limits come from the caller's context alone.
package llama

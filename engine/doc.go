// Package engine owns the models of this machine: it starts their engine processes, keeps them alive, and hands out
// their slots one request at a time.
//
// The nouns, from the outside in: an [Engine] serves [Model]s; a model has one or more backends, each one engine
// process (or one foreign server) with as many slots as the model's Parallel; requests wait in one [Line] per model;
// who holds a slot holds a [Lease].
//
// It promises: no backend ever runs more requests than it has slots; a seat is handed on only when the engine itself
// has let go of the last request; a waiter is served in the order of the line among those that accept the freed
// backend; nothing is given to a backend that is not ready; an engine process outlives a restarted node and is adopted
// when its specification is unchanged; one that is given another program, and has room beside its new one, serves until that
// is ready; nothing that viiwork did not start is ever touched.
//
// It does not know any kind of engine: a [Dialect] (engine/llama) knows flags and HTTP, a [Runner] (engine/docker,
// engine/native) knows containers and processes.
//
// All exported methods may be called from any goroutine. New starts nothing; Run owns every goroutine of the package.
package engine

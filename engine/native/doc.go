// Package native runs engines as processes of this machine: on a Mac, or where no Docker is wanted.
//
// Each backend is the leader of its own session, so it outlives the node, a closed terminal and Ctrl-C. What a later
// node needs to find it again is a record in <state>/engines/NAME.json (0600): process id, start time and port. The
// start time is what makes the id safe: a process with the same id and another start time is a stranger that got the
// number later, and is never touched. Output goes to NAME.log beside it, the run before that to NAME.log.1; both stay
// for the owner when the engine is stopped.
//
// The process inherits a short list of the node's variables and no secret of it, reads from /dev/null and listens on a
// loopback port that was free a moment before. Should another program take the port in that moment, the engine ends
// and its next start gets another.
//
// A [Runner] may be used from any goroutine and owns none.
package native

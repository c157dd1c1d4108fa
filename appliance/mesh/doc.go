// Package mesh is what nodes tell each other over HTTP: who has room for which model, and the requests they answer for
// one another.
//
// The nouns: a [Keyring] holds the [Keys] that come from the mesh's [Secret], which a [Rotation] replaces while the node
// runs; a [Signer] puts its node's name and a signature on a request, a [Verifier] checks those that arrive; a
// [Publisher] tells this node's capacity to whoever follows it; a [Watcher] follows all other members and writes what
// they say into the [Table]; a [Client] carries one request to one member; a [Desk] lends this node's seats to members
// that ask for one before they forward a request; a [Register] knows which backend, here or at a member, holds how much
// of which conversation; a [SessionKey] is what sessions and prompts are told with, the latter as a chain of [Link]s;
// [Aliases] are the names that the whole mesh has for models, which a [Herald] keeps the same everywhere; a [Giver] answers
// members alone when they ask for what other rooms have, of which it bounds how much is on its way; a [JoinCode] is what a new
// machine needs to come in.
//
// It promises: a request that was altered, replayed, meant for another node or signed with another secret is refused
// before its body is read; what a node last said about itself is worth nothing after 3 s of silence, measured by this
// machine's own clock; a forward is sent once, carries a mark and is never forwarded again; a seat has one holder, and is
// free again when that one does not come for it or is no more; all that comes from a member is bounded before it is
// believed; no secret, key, lease or prompt is in an error, a log line or a warning.
//
// It does not know who is alive (it is given the members), nor how they are reached (it is given a way to dial), nor
// what a model is: a func tells this node's own capacity, another one gives its seats.
//
// All exported methods may be called from any goroutine. New starts nothing; the Run methods of Publisher, Watcher,
// Herald, Desk and Rotation own every lasting goroutine.
package mesh

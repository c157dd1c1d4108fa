// Package kvshare keeps what conversations have in the engines' KV caches, and takes it along when one of them has to move:
// to another backend, another node, or a slot that meanwhile belonged to somebody else.
//
// A home saves a slot into its store before the slot goes to another conversation, or once it is idle, if that is worth the
// time in which the engine does nothing else. Who gets the conversation's next turn fetches the state, from its own store or
// from the home's, restores it into a slot that may be lost, and has the engine work there. None of that is ever needed: what
// fails, or takes too long, leaves the turn to be computed from its beginning. What an engine says about the cached part of its
// next answer shows whether a state was of any use; a model and engine for which it was not, three times in a row, is left
// alone from then on.
//
// States are conversations. They lie in the store and on their way through the slots' folders, readable by their owner alone,
// and go to members of the mesh only.
package kvshare

// Package top is viiwork top: how a node and its mesh are at this moment, on a terminal, as often as it is asked.
//
// Without a terminal it prints the same tables as plain text. It only reads: the node's documents, the way it was given
// to get them, and engines' logs. A figure that the node does not tell is "–", never 0. Names come from other machines
// and from files: what a terminal would act on is taken out of them, and their width is that on the screen, not their
// length.
//
// Run owns all goroutines of the package and returns when they have ended.
package top

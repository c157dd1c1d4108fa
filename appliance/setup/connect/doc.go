// Package connect knows what clients of a mesh want to be told: where it is, which model to ask for, and how much that
// model holds. It edits their own files so that every other key, comment and blank in them stays as it was.
//
// It is pure: it is handed texts and returns texts. Who calls it reads and writes the files, and asks their owner.
package connect

// Package update finds releases of viiwork, and believes none without proof.
//
// A release is one OCI index: a runnable image for each platform of Linux, the program alone for macOS. What proves it is
// an attestation by Sigstore: a statement, signed by the publisher's release workflow and written in a public log, that
// this index was built from this commit of this repository for this tag. [Updater] looks for the newest one in a registry
// or in a directory, [Verifier] judges what it finds there, and a [Verified] is what it has found good: nothing else can
// be installed, and nobody but a Verifier makes one.
//
// Promised: all of the policy is exact text, none of it a pattern; what a registry, a directory or a bundle says is
// bounded and believed only as far as digests and signatures reach; a version older than the newest one seen is taken
// only when a person asks for it. Not promised: that there is nothing newer. Who serves releases can hold them back.
//
// The clock of this machine has no say in whether a proof holds: the log's and the timestamp authority's have. A program
// that was built without naming its publisher trusts nobody, and [New] says so ([ErrNoPublisher]).
//
// An Updater, a Verifier and a Trust may be used from any goroutine. Package build makes releases; package updatetest is
// a Sigstore of its own for tests.
package update

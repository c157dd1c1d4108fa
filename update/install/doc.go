// Package install puts proved releases on one machine, tries them, and goes back by itself.
//
// An installation is a folder of versions. Each has a folder of its own with the program; the link current names the one
// that runs, the link previous the one to go back to. [Versions.Install] takes a release that [update.Verifier] has found
// good and nothing else, writes it beside the others, has it say what it is and read the node's configuration, and only
// then turns the links, each by one rename. From then on the new version is on trial: the OLD program judges it
// ([Versions.Judge]) from a process of its own, by whether the node is as ready as it was, answers as it did, and stays
// up. A version that fails is taken back and remembered. Should the judge die, [Versions.Boot] counts starts: a version
// that was started too often without having been found good is taken back before the next one.
//
// Promised: whatever is cut off, by kill -9 or by power, current names a whole program that worked or was to be tried, and
// the next start or the next update puts the rest in order. No decision is made by this machine's wall clock. Not promised:
// that state written by a version is understood by one much older; by the one before it is, as docs/updates.md has it.
//
// A Versions may be used from any goroutine and from several processes at a time: what changes things holds a lock in the
// folder.
package install

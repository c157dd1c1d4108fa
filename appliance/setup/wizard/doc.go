// Package wizard makes a member of a mesh out of a bare machine: it looks at the machine, asks its owner what to serve and
// which mesh to join, shows every file it would write, and only then changes anything.
//
// All of what is decided is [Draft]: what the owner says ([Answers]) and what the machine shows ([Sight]) come to a
// [Setup], or to faults. It is pure but for reading model files' headers. A file of answers and a conversation differ in
// nothing but where the answers come from: [Wizard] asks for those that are missing, one step at a time, and drafts anew
// after each; a [Prompter] is all it knows of terminals.
//
// It downloads nothing that nobody asked for. Until the owner has agreed to the files, all it leaves is the device's
// own folder in the state directory, and that is taken away again, and the device logged out, when the wizard is left.
//
// None of it is safe for use by more than one goroutine.
package wizard

package main

import "viiwork/images"

// ImageMembers asks for images by way of the node at a socket.
func ImageMembers(socket string) images.Members { return imageMembers{nodeAt(socket, "viiwork serve")} }

// TakeStray is takeStray.
var TakeStray = takeStray

// DrawKV is drawKV.
var DrawKV = drawKV

// StampPublisher does what the linker does for a release; undo takes it back.
func StampPublisher(workflow string) (undo func()) {
	old := publisher
	publisher = workflow
	return func() { publisher = old }
}

// StampVersion does what the linker does for a release.
func StampVersion(v string) { version = v }

// Package accept proves that a machine does in its mesh what it was set up for: that others reach it, that each model
// answers, calls tools, spreads over the machines and lets go of a request whose client left.
//
// It asks the node through its own socket, and other members through the node, as any client would ask them. It leaves
// nothing behind: the one alias that it sets it removes again. Its requests are small, but they take slots like anyone's.
//
// A check that cannot be made for want of something (another node, a model) is skipped and says so: that is no failure.
package accept

// Package faults is a bench without a product: five nodes, each a process in a network namespace of its own, and what
// becomes of requests when one of them dies, freezes, is cut off, or loses its clock, and when the mesh is halved.
//
// The test program starts itself anew in namespaces for network, mounts and processes, so that nothing it does touches
// the host and everything ends with it, however it ends. That takes root and iproute2; without them the tests that need
// a network of their own skip and say why. The short form runs with all tests; with VIIWORK_FAULTS=full in the
// environment ("make faults") faults last long enough to hold what is promised about time against a clock.
//
// Engines are fakes that keep a journal of what they ran and how it ended. Each request bears a mark, so that what
// clients saw and what engines did can be laid side by side: nothing may be lost, nothing may run twice.
package faults

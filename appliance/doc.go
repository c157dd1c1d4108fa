// Package appliance is one node: it makes the parts from a configuration, starts them in order, and lets them end in
// the reverse order.
//
// Boot order: state directory and its lock → listeners (so that a taken port is known before a model is loaded) →
// engine → place on the network and in the mesh; the gateway answers from the first moment, and for the mesh once the
// node has its place. On shutdown the node stops granting seats, lets running streams finish for node.drain, closes its
// listeners, and leaves the engines running for the next start to adopt, unless it was told to stop them. Where its
// listeners outlive it, it refuses nothing meanwhile; see finish.
//
// New starts nothing. Run owns every goroutine. Reload, Abort and the HTTP handlers may be called from any goroutine.
package appliance

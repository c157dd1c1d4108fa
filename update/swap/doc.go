// Package swap puts a container of a newer image in the place of the one that a node runs in, and puts the old one back if
// the new one does not hold.
//
// A node that is to be replaced cannot do it itself: it would end in the middle. So [Begin], in the old container, fetches the
// proved image, tries it, writes a plan into the state directory, and starts a helper: a third container, of the OLD image,
// whose one purpose is [Run]. That makes the new container by our own rules, stops the old one, lets them change names,
// starts the new one, and judges it as a version on a machine without containers is judged: as ready as before, answers, stays
// up. Then the old container is removed; else the new one is, and the old one gets its name back and is started.
//
// Each step looks at what Docker has before it does anything, and leaves alone what is done already, so a helper that was
// killed at any point, or whose Docker was restarted, goes on where it was; Docker starts it again until it ends well.
// Engines are containers beside, and are not known here.
//
// Not promised: that two programs may swap one node at a time (a lock says who is first), or that a container that somebody
// renames or removes meanwhile comes back.
package swap

// Package papers proves an image by the few kilobytes that describe it, so that its layers may come from anybody.
//
// A digest that an owner or a release has pinned is that of a manifest, or of an index that names one for each platform. The
// manifest names the configuration by its digest, and the configuration each layer by that of its archive. [Papers] are
// these documents as a registry gave them; [Papers.Check] holds each against the digest that leads to it, and what it
// returns, an [Image], takes layers of no other digests: [Image.Archive] writes what Docker loads of parts that were held
// against theirs, and nothing that anybody else made.
//
// A [Folder] keeps the papers of what was fetched here. All of this may be used from any goroutine, and owns none.
package papers

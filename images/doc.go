// Package images knows the engine images of a machine: which there are (the catalogue, built in), which of them Docker
// holds, and that what an engine is started from is what was asked for.
//
// An image is fetched by digest. Docker fetches; this package asks the registry itself for the manifest of that digest
// and compares the configuration named there with the image that Docker then has. What passed is kept in a [Book], with
// the image id, since Docker forgets digests when images are saved and loaded. Engines are started by that id.
//
// A tag without a known digest is trusted the first time it is fetched and pinned to what it was then; when it has moved
// since, fetching it again is refused ([ErrMoved]) until the owner names the new digest. Images of this machine's own
// making have no digest: the book keeps the id of those that [Stock.Build] made, and vouches for no others.
//
// An image that a member of the mesh has comes from there: its documents and layers are checked against the digest
// ([viiwork/images/papers]), and Docker loads what this package makes of them. What a registry has is fetched by Docker.
//
// None of the images for graphics cards has been run on its hardware by this project; the catalogue says so.
//
// A [Stock] and a [Book] may be used from any goroutine; neither owns one.
package images

package appliance

// FileDigest is the digest of a model in these shards.
var FileDigest = fileDigest

// DigestLargest is the largest file that is read whole for its digest.
const DigestLargest = digestLargest

// Missing are the peers that a node asks to gossip.
var Missing = missing

// NextPause is how long a node waits before it looks for others again.
var NextPause = nextPause

package appliance

// FileDigest is the digest of a model in these shards.
var FileDigest = fileDigest

// DigestLargest is the largest file that is read whole for its digest.
const DigestLargest = digestLargest

// Missing are the peers that a node asks to gossip.
var Missing = missing

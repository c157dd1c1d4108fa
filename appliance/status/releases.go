package status

// ReleaseFetch is the body of POST /api/releases/fetch: a part of a release that a member may have.
type ReleaseFetch struct {
	Digest string `json:"digest"` // sha256:…
	Size   int64  `json:"size"`
}

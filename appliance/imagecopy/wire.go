package imagecopy

import (
	"net/http"

	"viiwork/appliance/mesh"
	"viiwork/images"
	"viiwork/images/papers"
)

// Where a member is asked: for an image's papers, for what its layers are given as, and for a piece of one.
const (
	PapersPath = "/v1/engineimages"
	PartsPath  = "/v1/engineimages/parts"
	PiecePath  = "/v1/engineimages/piece"
)

const (
	maxPiece  = images.MaxPiece
	maxPapers = 4*papers.MaxDocument + 1<<10 // bytes of an answer: three documents as base64
	maxParts  = 64 << 10
)

// laid is the answer to a question for parts.
type laid struct {
	Parts []papers.Part `json:"parts"` // the lowest layer first; none as long as they are being laid out
	Bytes int64         `json:"bytes"` // laid out so far
}

var (
	errAsk  = &mesh.No{Status: http.StatusBadRequest, Code: "bad_request", Message: "that is no question for an image"}
	errNone = &mesh.No{Status: http.StatusNotFound, Code: "not_found", Message: "it has no such image, or has not laid it out"}
)

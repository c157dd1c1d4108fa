package imagecopy

import (
	"net/http"

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

// refusal is an answer that is not what was asked for.
type refusal struct {
	status        int
	code, message string
}

func (r *refusal) Error() string { return r.message }

var (
	errAsk  = &refusal{http.StatusBadRequest, "bad_request", "that is no question for an image"}
	errNone = &refusal{http.StatusNotFound, "not_found", "it has no such image, or has not laid it out"}
	errBusy = &refusal{http.StatusTooManyRequests, "busy", "it gives as much away as it may at one time"}
)

// refused is such an answer's body.
type refused struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

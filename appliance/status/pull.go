package status

// PullRequest is the body of POST /api/models/pull: which model is to be copied to this node.
type PullRequest struct {
	Node  string `json:"node"`           // name of the member that has it
	Model string `json:"model"`          // or the path of a file below that node's models_dir
	As    string `json:"as,omitempty"`   // name of the file here; "" = as there
	Dir   string `json:"dir,omitempty"`  // absolute; "" = models_dir
	Rate  int64  `json:"rate,omitempty"` // bytes a second at most; 0 = any number
}

// Pull is one line of what POST /api/models/pull answers: how far it has come, the end, or why there was none.
type Pull struct {
	File    string  `json:"file,omitempty"`
	State   string  `json:"state,omitempty"` // copying, waiting (for its turn there) or checking
	Bytes   int64   `json:"bytes,omitempty"` // of all files that are here
	Size    int64   `json:"size,omitempty"`  // of all files
	Done    *Pulled `json:"done,omitempty"`  // the last line of a copy that succeeded
	Error   string  `json:"error,omitempty"` // the last line of one that did not
	Refused bool    `json:"refused,omitempty"`
}

// Pulled is a model that was copied.
type Pulled struct {
	Model  string       `json:"model"`
	Digest string       `json:"digest"`
	Files  []PulledFile `json:"files"` // shards in their order, then the projector
}

// PulledFile is one of its files.
type PulledFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	MMProj bool   `json:"mmproj,omitempty"`
	Had    bool   `json:"had,omitempty"` // it was here before
}

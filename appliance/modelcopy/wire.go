package modelcopy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Where a member is asked: for a model's files, for a piece of one, and for the SHA-256 of one.
const (
	ListPath  = "/v1/modelfiles"
	PiecePath = "/v1/modelfiles/piece"
	SumPath   = "/v1/modelfiles/sum"
)

const (
	// maxPiece is the most bytes that are asked for at one time. Over a userspace network stack, which takes memory for what is
	// under way, it is tailnetPiece.
	maxPiece     = 4 << 20
	tailnetPiece = 1 << 20
	// maxList bounds a list, maxFiles what is in it: the parts of a model, and a projector. They are those of a model that can be run.
	maxList  = 1 << 20
	maxFiles = 1001
	// maxFile is the largest file taken for one: no model published has a tenth of it.
	maxFile = 16 << 40
	maxName = 200 // bytes
)

// listed is a model's files as the server tells of them: the shards in their order, then the projector if it has one.
type listed struct {
	Model  string `json:"model"`
	Digest string `json:"digest"` // of the model, as reports tell it
	Files  []file `json:"files"`
}

// file is one of them.
type file struct {
	Name   string `json:"name"` // without folders
	Size   int64  `json:"size"`
	Digest string `json:"digest"` // of this file alone, made as a model's
	Tag    string `json:"tag"`    // another one once the file is written or replaced
	MMProj bool   `json:"mmproj,omitempty"`
}

// summed is the answer to a question for a SHA-256.
type summed struct {
	SHA256 string `json:"sha256"` // hexadecimal; "" = it is not known yet
}

var (
	errList  = errors.New("the member's list of files is none that a model can have")
	digest   = regexp.MustCompile(`^v1:[0-9a-f]{64}$`)
	tagText  = regexp.MustCompile(`^[0-9a-f]{32}$`)
	sumText  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	partName = regexp.MustCompile(`^(.+)-([0-9]{5})-of-([0-9]{5})\.gguf$`)
)

// readList takes no list that would lead to other places than files of this model in one folder.
func readList(text []byte) (listed, error) {
	var l listed
	if json.Unmarshal(text, &l) != nil || len(l.Files) == 0 || len(l.Files) > maxFiles || !digest.MatchString(l.Digest) {
		return listed{}, errList
	}
	names, all := map[string]bool{}, int64(0)
	for i, f := range l.Files {
		ok := CheckName(f.Name) == nil && !names[f.Name] && f.Size > 0 && f.Size <= maxFile && all <= math.MaxInt64-f.Size &&
			digest.MatchString(f.Digest) && tagText.MatchString(f.Tag) && !(f.MMProj && (i == 0 || i < len(l.Files)-1))
		if !ok {
			return listed{}, errList
		}
		names[f.Name] = true
		all += f.Size
	}
	shards := l.shards()
	for i, f := range shards {
		m := partName.FindStringSubmatch(f.Name)
		if len(shards) > 1 && (m == nil || f.Name != shardName(partName.FindStringSubmatch(shards[0].Name)[1], i, len(shards))) {
			return listed{}, errList
		}
	}
	return l, nil
}

func (l listed) shards() []file {
	if n := len(l.Files); n > 0 && l.Files[n-1].MMProj {
		return l.Files[:n-1]
	}
	return l.Files
}

func shardName(stem string, i, n int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, n)
}

// CheckName says what is wrong with the name of a file that is to be written.
func CheckName(name string) error {
	stem, ok := strings.CutSuffix(name, ".gguf")
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '/' || r == '\\' || r == ':' }
	if !ok || stem == "" || len(name) > maxName || name[0] == '.' || name[0] == '-' || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, odd) || strings.TrimSpace(name) != name {
		return fmt.Errorf("%.60q is no name for a model's file: give one that ends in .gguf, without folders, of at most %d bytes", name, maxName)
	}
	return nil
}

// rename gives the files the names that the owner wants: all shards that of the model with their numbers behind, the projector its own.
func (l listed) rename(as string) listed {
	if as == "" {
		return l
	}
	shards := l.shards()
	stem := strings.TrimSuffix(as, ".gguf")
	if m := partName.FindStringSubmatch(as); m != nil {
		stem = m[1]
	}
	files := make([]file, len(l.Files))
	for i, f := range l.Files {
		switch {
		case f.MMProj:
			f.Name = "mmproj-" + stem + ".gguf"
		case len(shards) > 1:
			f.Name = shardName(stem, i, len(shards))
		default:
			f.Name = as
		}
		files[i] = f
	}
	l.Files = files
	return l
}

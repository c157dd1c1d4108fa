package mesh

import (
	"net/http"
	"time"
)

// What tests in mesh_test may look at.
var (
	HoldTime   = holdTime
	Diff       = diff
	ReadLine   = readLine
	ReadReport = readReport
	NewNonces  = newNonces
)

const (
	MaxReport  = maxReport
	MaxStreams = maxStreams
)

// Apply is change.apply.
func Apply(c *change, was *Report) (*Report, error) { return c.apply(was) }

// Parts tells how many models a change speaks of.
func Parts(c *change) int { return len(c.Models) }

// Encode gives the line of a stream for c, or for r if c is nil.
func Encode(r *Report, c *change) []byte {
	if c != nil {
		return encode(line{Change: c})
	}
	return encode(line{Report: r})
}

// Learn is Signer.learn.
func (s *Signer) Learn(req *http.Request, resp *http.Response) bool { return s.learn(req, resp) }

// Add is nonces.add.
func (c *nonces) Add(n [16]byte, now time.Time) (fresh, room bool) { return c.add(n, now) }

// Resign signs req anew as it stands.
func Resign(k Keys, req *http.Request) {
	req.Header.Set(headerSignature, encoding.EncodeToString(signature(k.sign, req)))
}

// Checksum is that of a join code.
var Checksum = checksum

// Fill makes all members of t say the same.
func Fill(t *Table, members []Member, r Report) {
	byID := map[string]Member{}
	for _, m := range members {
		byID[m.ID] = m
	}
	t.sync(byID)
	for id := range byID {
		t.hear(id, &r)
	}
}

// Beat says to t that its process is awake.
func Beat(t *Table) { t.clock.beat() }

// Hear makes a member of t say r.
func Hear(t *Table, id string, r *Report) { t.hear(id, r) }

// What tests of aliases may look at.
const (
	MaxAliases    = maxAliases
	MaxAliasBytes = maxAliasBytes
	KeepRemoved   = keepRemoved
	TellEvery     = tellEvery
)

// Merge is Aliases.merge.
func (a *Aliases) Merge(theirs []Alias) (gained, more bool) { return a.merge(theirs) }

// Purge is Aliases.purge.
func (a *Aliases) Purge() { a.purge() }

// All gives every entry, removed ones too.
func (a *Aliases) All() []Alias {
	a.mu.Lock()
	defer a.mu.Unlock()
	return sorted(a.entries)
}

// Digest is what a node tells of its table.
func (a *Aliases) Digest() [32]byte { return a.view.Load().digest }

// Document is what a node answers with.
func (a *Aliases) Document() []byte { return a.view.Load().document }

// ReadAliases is readAliases.
var ReadAliases = readAliases

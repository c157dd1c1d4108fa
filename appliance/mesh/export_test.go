package mesh

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
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
func Resign(k *Keyring, req *http.Request) {
	req.Header.Set(headerSignature, encoding.EncodeToString(signature(k.Load().sign, req)))
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

// Understands reports whether a node with r takes what one with other signs.
func (r *Keyring) Understands(other *Keyring) bool {
	sign := other.Load().sign
	return slices.ContainsFunc(r.Load().accept, func(key []byte) bool { return bytes.Equal(key, sign) })
}

// SignsWith reports whether the keys are those of a node that uses secret.
func (r *Keyring) SignsWith(secret []byte) bool {
	return bytes.Equal(r.Load().sign, derive(secret, labelHTTP))
}

// SecretState is how r stands: its generation, its stage and the name of its new secret.
func (r *Rotation) SecretState() (generation uint64, at string, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Generation, string(r.state.Stage), nameOf(r.state.Secret)
}

// Second reports whether r still has a second secret.
func (r *Rotation) Second() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Prev != nil
}

// SealFor closes secret with old for an accept message.
func SealFor(old, secret []byte, generation uint64, from, to string) []byte {
	return seal(old, secret, envelope{generation, stageAccept, from, to})
}

// Unseal opens what SealFor closed.
func Unseal(old, sealed []byte, generation uint64, from, to string) []byte {
	return unseal(old, sealed, envelope{generation, stageAccept, from, to})
}

// NameOf is nameOf.
var NameOf = nameOf

// Take gives r a message as it came.
func (r *Rotation) Take(from string, body []byte) error {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	return r.take(from, m).fault()
}

// Tell is SessionKey.tell.
func Tell(s *SessionKey) []byte { return s.tell() }

// Learn is SessionKey.learn.
func Learn(s *SessionKey, told []byte) { s.learn(told) }

// Took notes how long it took to a member and back.
func Took(c *Client, id string, d time.Duration) { c.ways.took(id, d) }

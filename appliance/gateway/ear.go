package gateway

import (
	"errors"
	"net/http"
	"time"

	"viiwork/appliance/mesh"
	"viiwork/appliance/status"
)

// Ear is told what becomes of requests, by whoever counts them. None of its functions may wait; nil = nobody listens.
type Ear struct {
	// Ended gets the row of each request that this node has done with, also of one that was refused before it had a row.
	Ended func(status.Request, Course)
	// Forwarded gets how long a member took from being sent a request to the begin of its answer.
	Forwarded func(node string, took time.Duration)
	// Unseated gets the code with which a member refused a seat; "" where it could not be asked.
	Unseated func(node, code string)
}

// Course is when a request got how far at this node; the zero time = it did not. What is tried anew counts as it went last.
type Course struct {
	Came      time.Time // its headers
	Read      time.Time // its body has come and is understood
	Planned   time.Time // for the first time
	Placed    time.Time // it had a seat
	Forwarded time.Time // it was sent to a member; zero = it ran here
	First     time.Time // content of the answer
	Ended     time.Time
}

// ended tells of a request that had a row.
func (k *call) ended() {
	if f := k.g.cfg.Ear.Ended; f != nil {
		k.course.Ended = k.g.now()
		f(k.row.copy(), k.course)
	}
}

// dismissed tells of one that is refused before it has one.
func (k *call) dismissed(err error) error {
	if f := k.g.cfg.Ear.Ended; f != nil {
		e, entry := asError(err), k.g.cfg.Node
		if k.hop != nil {
			entry = k.hop.origin
		}
		f(status.Request{ID: k.id, Client: k.client(), Time: k.start, Entry: entry, Path: k.rt.path, Model: k.model, State: stateDone, Status: e.Status, Error: e.Code},
			Course{Came: k.start, Ended: k.g.now()})
	}
	return err
}

// answers tells of a member that begins to answer what it was sent at that time.
func (k *call) answers(m mesh.Member, sent time.Time) {
	if f := k.g.cfg.Ear.Forwarded; f != nil {
		f(m.Name, time.Since(sent))
	}
}

// unseats tells of a member that gave no seat.
func (k *call) unseats(m mesh.Member, err error) {
	f := k.g.cfg.Ear.Unseated
	if f == nil {
		return
	}
	code := ""
	var no *mesh.SeatRefused
	if errors.As(err, &no) {
		if code = no.Code; code == "" {
			code = http.StatusText(no.Status)
		}
	}
	f(m.Name, code)
}

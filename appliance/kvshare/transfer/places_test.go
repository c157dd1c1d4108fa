package transfer_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

// takesNothing asks for all of a state and does not read the answer.
func (n *node) takesNothing(t *testing.T, from mesh.Member, s *states) *http.Response {
	t.Helper()
	body := binary.BigEndian.AppendUint64(nil, uint64(s.manifest.Size))
	for _, c := range s.manifest.Chunks {
		body = append(body, c.Sum[:]...)
	}
	resp, err := n.mesh.Post(t.Context(), from, transfer.ChunksPath, body)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A member that is slow, or has stopped, has all places where answers are given, and then as many as it asks for.
func TestWhoTakesNothingKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStates(4, 1<<20)
		k := keys(t, mesh.KeyConfig{Secret: secret})
		w := newWire()
		has := start(t, "b", plan{keys: k, source: s, listen: func() net.Listener { return w }})
		joins := func(id string) *node {
			return start(t, id, plan{keys: k, source: s, dial: w.dial, listen: func() net.Listener { return newWire() }, config: func(c *transfer.Config) { c.Trusted = nil }})
		}
		slow, asks := joins("a"), joins("c")
		for i := range transfer.MaxServed + 2 {
			resp := slow.takesNothing(t, has.Member, s)
			defer resp.Body.Close()
			if i >= transfer.MaxAsking && resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("answer %d to one member: %d", i, resp.StatusCode)
			}
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		a := arrive(t, s)
		if _, err := asks.client.Fetch(ctx, has.Member, s.manifest, s.all(), a.put); err != nil {
			t.Fatal(err)
		}
		a.isWhole()
		if took := time.Since(began); took > transfer.PlaceFor {
			t.Errorf("another member waited for %s", took)
		}
	})
}

// A place that was lost is waited for again: there are never more answers than places at the disk.
func TestALostPlaceIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStates(6, 100<<10)
		asks, has := inMemory(t, nil, s, nil)
		for range 3 { // more than there are places, one after the other
			for range 2 {
				resp := asks.takesNothing(t, has.Member, s)
				time.Sleep(2 * transfer.PlaceFor)
				_ = resp.Body.Close()
			}
			a := arrive(t, s)
			began := time.Now()
			if _, err := asks.client.Fetch(t.Context(), has.Member, s.manifest, s.all(), a.put); err != nil {
				t.Fatal(err)
			}
			a.isWhole()
			if took := time.Since(began); took > 0 {
				t.Errorf("places are missing: it took %s", took)
			}
		}
	})
}

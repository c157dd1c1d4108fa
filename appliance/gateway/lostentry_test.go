package gateway_test

import (
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"testing"

	"viiwork/appliance/mesh"
	"viiwork/engine/enginetest"
)

// TestALostEntryFreesItsSlotThoughItsConnectionIsFull: a member asks for a long answer, reads none of it and is not heard
// again. What was written for it fills the connection; the slot is free again all the same, long before the time that a
// client may take to read.
func TestALostEntryFreesItsSlotThoughItsConnectionIsFull(t *testing.T) {
	t.Parallel()
	f := fake(t, enginetest.Options{Slots: 1, ReplyTokens: 1 << 30, Context: 1 << 30})
	fl := newFleet(t, nil, spec{models: model("m", 1, f.URL())})
	owner := fl.peers[0]
	lost := mesh.NewSigner(mesh.SignerConfig{ID: "id-lost", Keys: fl.keys})
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	req, err := http.NewRequest("POST", owner.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Viiwork-Hop", "1")
	lost.Sign(req, owner.ID, sha256.Sum256([]byte(body)))
	conn, err := net.Dial("tcp", owner.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	owner.until("it runs", func() bool { return f.Stats().Active == 1 })
	freed(&owner.node)
	owner.until("cancelled", func() bool { return f.Stats().Cancelled == 1 }) // an engine counts it after its slot is free
}

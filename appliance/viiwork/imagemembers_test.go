package main_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	viiwork "viiwork/appliance/viiwork"
	"viiwork/images"
)

// TestMembersAreAskedForImagesByWayOfTheNode, and where none runs there is nothing to be had, which is no fault.
func TestMembersAreAskedForImagesByWayOfTheNode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	m := viiwork.ImageMembers(socket)
	if offers, err := m.Offers(t.Context(), "sha256:1"); err != nil || len(offers) > 0 {
		t.Errorf("no node: %v, %v", offers, err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		switch {
		case r.URL.Path == "/api/engineimages":
			_, _ = w.Write([]byte(`[{"member":"attic","papers":{"manifest":"e30=","config":"e30="}}]`))
		case r.URL.Path == "/api/engineimages/parts":
			_, _ = w.Write([]byte(`[{"digest":"sha256:2","size":5}]`))
		case r.URL.Query().Get("from") == "0":
			_, _ = w.Write([]byte("piece without end"))
		default:
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte(`{"error":{"message":"it has gone"}}`))
		}
	}))
	web.Listener.Close()
	web.Listener = l
	web.Start()
	defer web.Close()
	if offers, err := m.Offers(t.Context(), "sha256:1"); err != nil || len(offers) != 1 || offers[0].Member != "attic" || string(offers[0].Papers.Manifest) != "{}" {
		t.Errorf("%+v, %v", offers, err)
	}
	if parts, err := m.Parts(t.Context(), "attic", "sha256:1"); err != nil || len(parts) != 1 || parts[0].Size != 5 {
		t.Errorf("%+v, %v", parts, err)
	}
	p := images.Piece{Member: "attic", Image: "sha256:1", Layer: "sha256:2", Size: 5}
	if b, err := m.Piece(t.Context(), p); err != nil || len(b) != 6 {
		t.Errorf("%q, %v: one byte more says that there is no end", b, err)
	}
	p.From = 5
	if _, err := m.Piece(t.Context(), p); err == nil || !strings.Contains(err.Error(), "it has gone") {
		t.Errorf("what the node says: %v", err)
	}
	want := "/api/engineimages/piece?digest=sha256%3A1&from=5&layer=sha256%3A2&node=attic&size=5"
	if got := asked[len(asked)-1]; got != want {
		t.Errorf("asked %s", got)
	}
}

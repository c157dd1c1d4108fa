package appliance_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestNoImageIsGivenInAnOpenMesh, where anybody is a member and could have disks filled; nor is anybody asked there.
func TestNoImageIsGivenInAnOpenMesh(t *testing.T) {
	t.Parallel()
	has, asks := lanFellow(t, 62), lanFellow(t, 63)
	asks.seeds = []string{has.seed()}
	has.here(t)
	asks.here(t)
	holds(t, "they know each other", func() bool { return asks.member(has.name) == "alive" && has.member(asks.name) == "alive" })
	digest := "sha256:" + strings.Repeat("1", 64)
	if got := asks.owner(t, http.MethodGet, "/api/engineimages?digest="+digest, ""); got.status != http.StatusOK || strings.TrimSpace(got.body) != "[]" {
		t.Errorf("%d %s", got.status, got.body)
	}
	got := asks.owner(t, http.MethodGet, "/api/engineimages/parts?node="+has.name+"&digest="+digest, "")
	if got.status != http.StatusBadGateway || !strings.Contains(got.body, "secured mesh only") {
		t.Errorf("%d %s", got.status, got.body)
	}
	got = asks.owner(t, http.MethodGet, "/api/engineimages/piece?node="+has.name+"&digest="+digest+"&layer="+digest+"&from=0&size=1048577", "")
	if got.status != http.StatusBadRequest {
		t.Errorf("too much at one time: %d %s", got.status, got.body)
	}
	for _, path := range []string{"/api/engineimages?digest=x", "/api/engineimages", "/api/engineimages/parts?node=" + has.name, "/api/engineimages/piece?node=" + has.name + "&digest=x&from=0&size=1"} {
		if got := asks.owner(t, http.MethodGet, path, ""); got.status != http.StatusBadRequest || !strings.Contains(got.body, "64 hexadecimal digits") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

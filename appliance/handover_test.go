package appliance_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestNothingIsEndedThatNobodyStartsAgain: the wish of an update is refused, and says what to do.
func TestNothingIsEndedThatNobodyStartsAgain(t *testing.T) {
	n := newNode(t, "")
	answer, err := socketClient(n.dir).Post("http://viiwork/api/update/restart", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusConflict || !strings.Contains(string(text), `"not_supervised"`) || !strings.Contains(string(text), "start it anew") || n.Status().State != "ready" {
		t.Errorf("%d %s, the node is %s", answer.StatusCode, text, n.Status().State)
	}
}

package mesh_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

// direct asks a desk as an entry would, without a network between the two.
type direct struct {
	t      testing.TB
	desk   http.Handler
	signer *mesh.Signer
}

func newDirect(t testing.TB, desk http.Handler, k *mesh.Keyring, id string) *direct {
	return &direct{t, desk, mesh.NewSigner(mesh.SignerConfig{ID: id, Keys: k})}
}

// answer is what comes of a request, as it comes.
type answer struct {
	header http.Header
	leave  context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	code int
	text bytes.Buffer
	deaf bool // nothing can be written any more
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.code == 0 {
		a.code = code
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deaf {
		return 0, errors.New("the connection is gone")
	}
	return a.text.Write(p)
}

func (a *answer) Flush() {}

func (a *answer) SetWriteDeadline(time.Time) error { return nil }

func (a *answer) status() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.code
}

func (a *answer) body() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

func (a *answer) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// lease is the id of the seat that was granted, "" if none was.
func (a *answer) lease() string {
	lines := strings.Split(strings.TrimSpace(a.body()), "\n")
	var g mesh.Grant
	_ = json.Unmarshal([]byte(lines[len(lines)-1]), &g)
	return g.ID
}

// request is signed as the entry's own.
func (d *direct) request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	d.signer.Sign(r, "n09", sha256.Sum256([]byte(body)))
	return r
}

// serve lets the desk answer r in the background.
func (d *direct) serve(r *http.Request) *answer {
	ctx, cancel := context.WithCancel(context.Background())
	a := &answer{header: http.Header{}, leave: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		d.desk.ServeHTTP(a, r.WithContext(ctx))
	}()
	return a
}

// begin asks and comes back once the ask waits or is answered.
func (d *direct) begin(body string) *answer {
	a := d.serve(d.request(http.MethodPost, "/v1/lease", body))
	synctest.Wait()
	return a
}

// post asks and waits for the answer's end.
func (d *direct) post(body string) *answer {
	a := d.serve(d.request(http.MethodPost, "/v1/lease", body))
	<-a.done
	return a
}

package mesh_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// hall is some nodes with one lock, on a network in memory that may be bad.
type hall struct {
	t     testing.TB
	net   *network
	dir   string
	nodes []*keyholder
	delay func() time.Duration // of each message; nil = none
	lost  func() bool          // a message, or the answer to it; nil = none is

	mu   sync.Mutex
	loss func(to, step string) bool // whether a message comes to nobody; nil = each comes
	cut  map[string]int             // side of a parted network, by id; those of another side are not reached
	gone map[string]string          // state by id of who is not alive: failed or left
}

// keyholder is one node that may hold the lock.
type keyholder struct {
	mesh.Member
	h      *hall
	dir    string
	lock   *mesh.Lock
	signer *mesh.Signer
	told   atomic.Int64 // how often of a change
	says   string       // to whatever is asked, signed as it should be; "" = what its lock says
	forged bool         // that is somebody else's, who has no key
	stop   func()
}

func newHall(t testing.TB, n int) *hall {
	h := buildHall(t, n)
	h.begin()
	return h
}

// buildHall starts nothing yet.
func buildHall(t testing.TB, n int) *hall {
	h := &hall{t: t, net: newNetwork(), dir: t.TempDir(), cut: map[string]int{}, gone: map[string]string{}}
	for i := range n {
		k := &keyholder{Member: member(i + 1), h: h, dir: filepath.Join(h.dir, member(i+1).ID)}
		if err := os.MkdirAll(k.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		k.keep(`{"term":0,"note":{"term":0,"number":0}}`) // it is not new
		h.nodes = append(h.nodes, k)
	}
	return h
}

func (h *hall) begin() {
	for _, k := range h.nodes {
		k.start()
	}
	h.t.Cleanup(h.end)
}

// keep writes the node's file.
func (k *keyholder) keep(text string) {
	if err := os.WriteFile(filepath.Join(k.dir, "meshlock.json"), []byte(text), 0o600); err != nil {
		k.h.t.Fatal(err)
	}
}

// losesDisk takes the node's folder away, at one moment: it may be writing.
func (k *keyholder) losesDisk() { check(k.h.t, os.Rename(k.dir, k.dir+"-lost")) }

func (h *hall) end() {
	for _, k := range h.nodes {
		k.stop()
	}
}

// start runs the node from its folder.
func (k *keyholder) start() {
	ring := keys(k.h.t, mesh.KeyConfig{Secret: secret})
	k.signer = mesh.NewSigner(mesh.SignerConfig{ID: k.ID, Keys: ring})
	ctx, cancel := context.WithCancel(context.Background())
	client := mesh.NewClient(mesh.ClientConfig{Signer: k.signer, Dial: func(dial context.Context, network, addr string) (net.Conn, error) {
		if ctx.Err() != nil {
			return nil, errors.New("this life is over")
		}
		return k.dial(dial, network, addr)
	}})
	lock := mesh.NewLock(mesh.LockConfig{
		ID: k.ID, Name: k.Name, Dir: k.dir, Keys: ring, Client: client,
		Verifier: mesh.NewVerifier(mesh.VerifierConfig{ID: k.ID, Keys: ring}), Members: k.members,
		Changed: func() { k.told.Add(1) },
	})
	k.h.mu.Lock()
	k.lock = lock
	k.h.mu.Unlock()
	server := &http.Server{Handler: k.badly(ctx, k.rogue(lock))}
	var wg sync.WaitGroup
	l := k.h.net.listen(k.Addr)
	wg.Go(func() { _ = server.Serve(l) })
	wg.Go(func() { check(k.h.t, lock.Run(ctx)) })
	k.stop = sync.OnceFunc(func() {
		cancel()
		_ = server.Close()
		wg.Wait()
		client.Close()
	})
}

// kill ends the node as a power cut does: what it still does reaches neither the others nor its disk.
func (k *keyholder) kill(as string) {
	k.stop()
	disk := k.dir + "-" + randomText()
	powerCut(k.h.t, k.dir, disk, "meshlock.json")
	k.dir = disk
	k.h.mu.Lock()
	k.h.gone[k.ID] = as
	k.h.mu.Unlock()
}

// again starts it anew.
func (k *keyholder) again() {
	k.start()
	k.h.mu.Lock()
	delete(k.h.gone, k.ID)
	k.h.mu.Unlock()
}

func (k *keyholder) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for _, other := range k.h.nodes {
		if other.Addr == addr && k.h.apart(k.ID, other.ID) {
			return nil, errors.New("no route")
		}
	}
	return k.h.net.DialContext(ctx, network, addr)
}

func (h *hall) apart(a, b string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut[a] != h.cut[b]
}

// part cuts the network in two: those named are on their own.
func (h *hall) part(away ...*keyholder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.cut)
	for _, k := range away {
		h.cut[k.ID] = 1
	}
}

// members is who lives as k sees it.
func (k *keyholder) members() (alive, failed, left []mesh.Member) {
	k.h.mu.Lock()
	defer k.h.mu.Unlock()
	for _, other := range k.h.nodes {
		switch state := k.h.gone[other.ID]; {
		case state == "left":
			left = append(left, other.Member)
		case state == "unseen": // it has never been here, as k sees it
		case state != "" || k.h.cut[k.ID] != k.h.cut[other.ID]:
			failed = append(failed, other.Member)
		default:
			alive = append(alive, other.Member)
		}
	}
	return alive, failed, left
}

// losing has the network lose messages; nil = no more.
func (h *hall) losing(which func(to, step string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loss = which
}

// loses reports whether what r brings to k is lost.
func (k *keyholder) loses(r *http.Request) bool {
	k.h.mu.Lock()
	which := k.h.loss
	k.h.mu.Unlock()
	if which == nil {
		return false
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Step string }
	return json.Unmarshal(body, &m) == nil && which(k.ID, m.Step)
}

// rogue is a node that may say what it likes.
func (k *keyholder) rogue(next http.Handler) http.Handler {
	verifier := mesh.NewVerifier(mesh.VerifierConfig{ID: k.ID, Keys: keys(k.h.t, mesh.KeyConfig{Secret: secret})})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if k.says == "" {
			next.ServeHTTP(w, r)
			return
		}
		peer, err := verifier.Check(r)
		check(k.h.t, err)
		_, _ = io.Copy(io.Discard, peer.VerifyBody(r.Body))
		if k.forged {
			_, _ = io.WriteString(w, k.says)
			return
		}
		mesh.WriteSigned(w, r, peer, []byte(k.says))
	})
}

// badly is the network's way with what comes to one life of a node.
func (k *keyholder) badly(life context.Context, next http.Handler) http.Handler {
	h := k.h
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.delay != nil {
			time.Sleep(h.delay())
		}
		if life.Err() != nil || h.lost != nil && h.lost() || k.loses(r) {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
		if h.lost != nil && h.lost() {
			panic(http.ErrAbortHandler)
		}
	})
}

// say brings to a message as it stands, signed by k, and tells the answer.
func (k *keyholder) say(to *keyholder, body string) (status int, answer string) {
	req, err := http.NewRequest(http.MethodPost, "http://"+to.Addr+"/v1/lock", strings.NewReader(body))
	if err != nil {
		k.h.t.Fatal(err)
	}
	k.signer.Sign(req, to.ID, sha256.Sum256([]byte(body)))
	return k.h.send(req)
}

// term is how far another one has counted.
func (k *keyholder) term(of *keyholder) uint64 {
	_, text := k.say(of, `{"step":"ask"}`)
	var a struct{ Term uint64 }
	check(k.h.t, json.Unmarshal([]byte(text), &a))
	return a.Term
}

// send brings a request as it is.
func (h *hall) send(req *http.Request) (status int, answer string) {
	// A connection that is to be closed has the server read no more of a body than it needs, and the rest is an error.
	transport := &http.Transport{DialContext: h.net.DialContext}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

package mesh_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/mesh"
)

// circle is some nodes whose secret is replaced, on a network in memory that may be bad.
type circle struct {
	t     testing.TB
	net   *network
	dir   string
	nodes []*holder
	delay func() time.Duration            // of each message and of each answer; nil = none
	lose  func(to *holder) (in, out bool) // a message, or the answer to it; nil = none
	after func(at *holder, step string)   // called when a message was taken and not yet answered; nil = nothing

	mu   sync.Mutex
	dead map[string]string // state by id of who is not alive: failed or left
	calm bool              // nothing happens but time: it is enough to look now and then
}

// holder is one node that holds the secret.
type holder struct {
	mesh.Member
	c        *circle
	dir      string
	given    mesh.SecretConfig // the configuration's
	ring     *ring
	keys     *mesh.Keyring
	rotation *mesh.Rotation
	signer   *mesh.Signer
	deaf     bool   // its network is cut
	blind    string // id of a member it does not see
	in       bool   // it has joined
	conns    []net.Conn
	stop     func()
}

func newCircle(t testing.TB, n int) *circle {
	c := &circle{t: t, net: newNetwork(), dir: t.TempDir(), dead: map[string]string{}}
	for i := range n {
		c.add(i+1, mesh.SecretConfig{Secret: secret})
	}
	t.Cleanup(func() {
		for _, h := range c.nodes {
			h.stop()
		}
	})
	return c
}

// add starts the i-th node with this secret in its configuration.
func (c *circle) add(i int, given mesh.SecretConfig) *holder {
	h := &holder{Member: member(i), c: c, given: given, dir: filepath.Join(c.dir, member(i).ID)}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.nodes = append(c.nodes, h)
	c.mu.Unlock()
	h.start()
	c.mu.Lock()
	h.in = true
	c.mu.Unlock()
	return h
}

// start runs the node from its folder and configuration.
func (h *holder) start() {
	h.given.StateDir = h.dir
	kept := mesh.ReadSecret(h.given)
	k, err := kept.Keys("")
	if err != nil {
		h.c.t.Fatal(err)
	}
	keys, gossip := mesh.NewKeyring(k), &ring{keys: k.Gossip()}
	signer := mesh.NewSigner(mesh.SignerConfig{ID: h.ID, Keys: keys})
	verifier := mesh.NewVerifier(mesh.VerifierConfig{ID: h.ID, Keys: keys})
	client := mesh.NewClient(mesh.ClientConfig{Signer: signer, Dial: h.dialler(keys)})
	rotation := mesh.NewRotation(mesh.RotationConfig{
		ID: h.ID, Name: h.Name, Secret: kept, Keys: keys, Gossip: gossip, Client: client, Verifier: verifier, Members: h.members,
	})
	h.c.mu.Lock()
	h.keys, h.ring, h.signer, h.rotation, h.deaf, h.in = keys, gossip, signer, rotation, false, false
	h.c.mu.Unlock()
	server := &http.Server{Handler: h.badly(rotation)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	l := h.c.net.listen(h.Addr)
	wg.Go(func() { _ = server.Serve(l) })
	wg.Go(func() { check(h.c.t, rotation.Run(ctx)) })
	h.stop = sync.OnceFunc(func() {
		cancel()
		_ = server.Close()
		wg.Wait()
		client.Close()
	})
}

// join makes a node that was started one of those who gossip, if they understand each other with one of its keys.
func (h *holder) join() bool {
	for range 4 {
		fits := true
		for _, other := range h.c.living() {
			fits = fits && (other.ID == h.ID || other.ring.understands(h.ring) && h.ring.understands(other.ring))
		}
		if fits {
			h.c.mu.Lock()
			delete(h.c.dead, h.ID)
			h.in = true
			h.c.mu.Unlock()
			return true
		}
		h.rotation.Refused()
	}
	return false
}

// dialler is the network of this life of the node.
func (h *holder) dialler(life *mesh.Keyring) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.c.mu.Lock()
		cut := h.deaf || h.keys != life
		h.c.mu.Unlock()
		if cut {
			return nil, errors.New("connection refused")
		}
		conn, err := h.c.net.DialContext(ctx, network, addr)
		if err == nil {
			h.c.mu.Lock()
			h.conns = append(h.conns, conn)
			h.c.mu.Unlock()
		}
		return conn, err
	}
}

// badly is the network's way with what comes to h.
func (h *holder) badly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := h.c
		if c.delay != nil {
			time.Sleep(c.delay())
		}
		c.mu.Lock()
		lose, after := c.lose, c.after
		c.mu.Unlock()
		var in, out bool
		if lose != nil {
			in, out = lose(h)
		}
		if in {
			panic(http.ErrAbortHandler)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
		var m struct{ Step string }
		if _ = json.Unmarshal(body, &m); after != nil {
			after(h, m.Step)
		}
		if c.delay != nil {
			time.Sleep(c.delay())
		}
		if out {
			panic(http.ErrAbortHandler)
		}
	})
}

// kill ends the node as a power cut does: what it still does reaches neither the others nor its disk.
func (h *holder) kill(as string) {
	disk := filepath.Join(h.c.dir, h.ID+"-"+time.Now().Format("150405.000000")+"-"+randomText())
	powerCut(h.c.t, h.dir, disk, "secret")
	h.c.mu.Lock()
	h.deaf, h.c.dead[h.ID], h.dir = true, as, disk
	for _, conn := range h.conns {
		conn.Close()
	}
	h.c.mu.Unlock()
	h.stop()
}

// powerCut leaves in disk what there is of a file in dir at one moment: it may just be written anew, and what it is written to
// first has another name a moment later.
func powerCut(t testing.TB, dir, disk, file string) {
	t.Helper()
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err == nil {
		err = os.WriteFile(filepath.Join(disk, file), text, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func randomText() string { return string(rune('a'+rand.IntN(26))) + string(rune('a'+rand.IntN(26))) }

// members is who lives as h sees it: one that has not joined sees nobody.
func (h *holder) members() (alive, failed, left []mesh.Member) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	for _, other := range h.c.nodes {
		switch state := h.c.dead[other.ID]; {
		case other.ID == h.blind:
		case state == "left":
			left = append(left, other.Member)
		case state != "" || !h.in:
			failed = append(failed, other.Member)
		default:
			alive = append(alive, other.Member)
		}
	}
	return alive, failed, left
}

// living are the nodes that are alive, as they are at this moment.
func (c *circle) living() (all []*holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.nodes {
		if c.dead[h.ID] == "" {
			now := *h
			all = append(all, &now)
		}
	}
	return all
}

// apart names two living nodes of which one does not understand the other, nil when there are none.
func (c *circle) apart() []string {
	all := c.living()
	for _, from := range all {
		for _, to := range all {
			if !to.keys.Understands(from.keys) || !to.ring.understands(from.ring) {
				return []string{from.Name, to.Name}
			}
		}
	}
	return nil
}

// watch fails the test at the first moment at which two living nodes do not understand each other, until done is closed.
func (c *circle) watch(done <-chan struct{}) {
	for {
		pace := 5 * time.Millisecond
		c.mu.Lock()
		if c.calm {
			pace = time.Second
		}
		c.mu.Unlock()
		select {
		case <-done:
			return
		case <-c.t.Context().Done():
			return
		case <-time.After(pace):
		}
		if two := c.apart(); two != nil {
			c.t.Errorf("%s understands nothing of %s: %s", two[1], two[0], c.story())
			return
		}
	}
}

// story is how everyone stands.
func (c *circle) story() (text string) {
	for _, h := range c.living() {
		g, at, name := h.rotation.SecretState()
		text += h.Name + " " + at + " " + string(rune('0'+g)) + " " + name[:4] + "; "
	}
	return text
}

// settled reports whether all who live have the same secret and no other.
func (c *circle) settled() bool {
	first := ""
	for _, h := range c.living() {
		_, at, name := h.rotation.SecretState()
		if at != "done" || h.rotation.Second() || first != "" && name != first {
			return false
		}
		first = name
	}
	return true
}

// secret is the one that the first of the living would put into a join code.
func (c *circle) secret() []byte {
	h := c.living()[0]
	given := h.given
	return mesh.ReadSecret(given).Bytes()
}

// rest lets two minutes pass on a good network.
func (c *circle) rest() {
	c.tame()
	time.Sleep(5 * time.Second)
	c.setCalm(true)
	time.Sleep(115 * time.Second)
	c.setCalm(false)
}

// tame makes the network a good one.
func (c *circle) tame() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose, c.after = nil, nil
}

func (c *circle) setCalm(calm bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm = calm
}

// end stops all, at the end of a bubble.
func (c *circle) end() {
	for _, h := range c.nodes {
		h.stop()
	}
}

// send brings to a message as it stands, signed by h.
func (h *holder) send(to *holder, body string) (status int, answer string) {
	req, err := http.NewRequest(http.MethodPost, "http://"+to.Addr+"/v1/secret", strings.NewReader(body))
	if err != nil {
		h.c.t.Fatal(err)
	}
	h.signer.Sign(req, to.ID, sha256.Sum256([]byte(body)))
	return h.c.post(req)
}

func (c *circle) post(req *http.Request) (status int, answer string) {
	transport := &http.Transport{DialContext: c.net.DialContext, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

package mesh_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

var another = []byte("another secret, 32 bytes of text")

// offered is an accept message of n01 for n02, changed.
func offered(generation uint64, change func(m map[string]any)) string {
	m := map[string]any{"step": "accept", "generation": generation, "secret": mesh.NameOf(another), "by": "n01", "by_name": "node1", "lead": "run",
		"sealed": mesh.SealFor(secret, another, generation, "n01", "n02")}
	if change != nil {
		change(m)
	}
	text, _ := json.Marshal(m)
	return string(text)
}

// TestHostileWordAboutTheSecretChangesNothing: a member may be broken or taken over, and who is none may say what they like.
func TestHostileWordAboutTheSecretChangesNothing(t *testing.T) {
	set := func(key string, value any) func(map[string]any) { return func(m map[string]any) { m[key] = value } }
	for name, says := range map[string]struct{ body, why string }{
		"sealed with another secret":   {offered(1, set("sealed", mesh.SealFor(another, another, 1, "n01", "n02"))), "seal"},
		"sealed for another node":      {offered(1, set("sealed", mesh.SealFor(secret, another, 1, "n01", "n03"))), "seal"},
		"sealed by another node":       {offered(1, set("sealed", mesh.SealFor(secret, another, 1, "n03", "n02"))), "seal"},
		"sealed for a generation past": {offered(2, set("sealed", mesh.SealFor(secret, another, 1, "n01", "n02"))), "seal"},
		"another secret than it says":  {offered(1, set("secret", mesh.NameOf(secret)+"x")), "seal"},
		"the secret there is":          {offered(1, func(m map[string]any) { m["sealed"], m["secret"] = mesh.SealFor(secret, secret, 1, "n01", "n02"), "x" }), "seal"},
		"a short secret":               {offered(1, set("sealed", mesh.SealFor(secret, another[:31], 1, "n01", "n02"))), "seal"},
		"nothing sealed":               {offered(1, set("sealed", nil)), "seal"},
		"a jump":                       {offered(1_000_001, nil), "jump"},
		"the last generation":          {offered(1<<63, nil), "jump"},
		"no generation":                {offered(0, nil), "message"},
		"nobody's":                     {offered(1, set("by", "")), "message"},
		"a name with a line feed":      {offered(1, set("by_name", "x\ny")), "message"},
		"a long name":                  {offered(1, set("by_name", strings.Repeat("x", 300))), "message"},
		"use of what was not accepted": {`{"step":"use","generation":1,"secret":"x"}`, "unknown"},
		"an end without a beginning":   {`{"step":"done","generation":1,"secret":"x"}`, "unknown"},
		"a way back from nowhere":      {`{"step":"drop","generation":1,"secret":"x"}`, "unknown"},
		"no step":                      {`{}`, "message"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCircle(t, 2)
				defer c.end()
				status, text := c.nodes[0].send(c.nodes[1], says.body)
				var a struct {
					OK  bool
					Why string
				}
				if json.Unmarshal([]byte(text), &a) != nil || status != http.StatusOK || a.OK || a.Why != says.why {
					t.Errorf("answered %d %s", status, text)
				}
				if g, at, name := c.nodes[1].rotation.SecretState(); g != 0 || at != "done" || name != mesh.NameOf(secret) || !c.settled() {
					t.Errorf("it stands at %d %s", g, at)
				}
			})
		})
	}
}

func TestStagesComeInTheirOrderAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		defer c.end()
		from, to := c.nodes[0], c.nodes[1]
		say := func(step string, generation uint64, lead string) string {
			return fmt.Sprintf(`{"step":%q,"generation":%d,"secret":%q,"by":"n01","lead":%q}`, step, generation, mesh.NameOf(another), lead)
		}
		smaller := func(m map[string]any) { m["by"] = "m" }
		for i, s := range []struct{ body, want string }{
			{offered(3, nil), `"ok":true`},
			{offered(3, nil), `"ok":true`}, // heard twice
			{say("done", 3, "run"), `"why":"order"`},
			{say("drop", 3, "other"), `"why":"other"`}, // another run takes it back
			{say("use", 4, "run"), `"why":"unknown"`},
			{offered(3, func(m map[string]any) {
				m["by"], m["secret"], m["sealed"] = "z", mesh.NameOf(another[:31]), mesh.SealFor(secret, another, 3, "n01", "n02")
			}), `"why":"other"`},
			{say("drop", 3, "run"), `"ok":true`},
			{offered(3, nil), `"ok":true`},
			{say("use", 3, "run"), `"ok":true`},
			{say("use", 3, "run"), `"ok":true`},
			{say("drop", 3, "run"), `"why":"order"`},
			{offered(4, func(m map[string]any) { smaller(m); m["secret"] = "x" }), `"why":"other"`}, // in use: nothing beats it
			{say("done", 3, "run"), `"ok":true`},
			{say("use", 3, "run"), `"ok":true`}, // late, and no way back
			{offered(4, func(m map[string]any) { m["secret"] = "x" }), `"why":"settling"`},
			{offered(2, func(m map[string]any) { m["secret"] = "x" }), `"why":"older"`},
		} {
			if status, text := from.send(to, s.body); status != http.StatusOK || !strings.Contains(text, s.want) {
				t.Errorf("%d: %s is answered %d %s, want %s", i, s.body, status, text, s.want)
			}
		}
		if !to.keys.SignsWith(another) || !to.rotation.Second() {
			t.Error("it does not use the new secret beside the old one")
		}
		time.Sleep(100 * time.Second)
		if to.rotation.Second() {
			t.Error("it does not forget the old one")
		}
		if status, _ := from.send(to, say("use", 3, "run")); status != http.StatusForbidden {
			t.Errorf("what the old secret signs is answered %d", status)
		}
	})
}

// TestRunsThatBringOneSecretTakeNothingBack: what one takes back the other counts on.
func TestRunsThatBringOneSecretTakeNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		defer c.end()
		for _, lead := range []string{"run", "other"} {
			c.nodes[0].send(c.nodes[1], offered(1, func(m map[string]any) { m["lead"] = lead }))
		}
		for _, lead := range []string{"run", "other", ""} {
			_, text := c.nodes[0].send(c.nodes[1], fmt.Sprintf(`{"step":"drop","generation":1,"secret":%q,"lead":%q}`, mesh.NameOf(another), lead))
			if !strings.Contains(text, `"why":"other"`) {
				t.Errorf("%q takes it back: %s", lead, text)
			}
		}
	})
}

// TestNodeThatGaveItsWordBeginsNothingElse: it accepts another's secret while it asks how everyone stands, and goes on with that.
func TestNodeThatGaveItsWordBeginsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		defer c.end()
		give := sync.OnceFunc(func() {
			c.nodes[0].send(c.nodes[1], offered(1, func(m map[string]any) { m["by"], m["by_name"] = "z", "zoe" }))
		})
		c.after = func(at *holder, step string) {
			if at == c.nodes[2] && step == "ask" {
				give()
			}
		}
		var resumed string
		out, err := c.nodes[1].rotation.Rotate(t.Context(), func(p mesh.Progress) {
			if p.Step == "resume" {
				resumed = p.Member
			}
		})
		if err != nil || len(out.Members) != 3 || resumed != "zoe" || !c.nodes[0].keys.SignsWith(another) {
			t.Errorf("%+v, %v; resumed %q: %s", out, err, resumed, c.story())
		}
	})
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		defer c.end()
		from, to := c.nodes[0], c.nodes[1]
		for body, want := range map[string]int{"": 400, "[]": 400, "{": 400, strings.Repeat(" ", 8<<10) + "{}": 413} {
			if status, text := from.send(to, body); status != want {
				t.Errorf("%.10q: %d %s", body, status, text)
			}
		}
		replay := func(body string, change func(*http.Request)) int {
			req, _ := http.NewRequest(http.MethodPost, "http://"+to.Addr+"/v1/secret", strings.NewReader(body))
			from.signer.Sign(req, to.ID, sha256.Sum256([]byte(body)))
			if change != nil {
				change(req)
			}
			first, _ := c.post(req)
			if first != http.StatusOK {
				return first
			}
			req.Body, _ = http.NoBody, 0
			req.ContentLength = 0
			again, _ := c.post(req)
			return again
		}
		if status := replay(offered(1, nil), nil); status != http.StatusForbidden {
			t.Errorf("a replay: %d", status)
		}
		if status := replay(offered(1, nil), func(r *http.Request) { r.Header.Del("X-Viiwork-Signature") }); status != http.StatusForbidden {
			t.Errorf("unsigned: %d", status)
		}
		req, _ := http.NewRequest(http.MethodPost, "http://"+to.Addr+"/v1/secret", strings.NewReader(`{"step":"use"}`))
		from.signer.Sign(req, to.ID, sha256.Sum256([]byte(`{"step":"ask"}`)))
		if status, _ := c.post(req); status != http.StatusBadRequest {
			t.Errorf("another body than was signed: %d", status)
		}
	})
}

func TestSealOpensForOneMessageOnly(t *testing.T) {
	sealed := mesh.SealFor(secret, another, 7, "a", "b")
	if got := mesh.Unseal(secret, sealed, 7, "a", "b"); !bytes.Equal(got, another) {
		t.Fatal("it does not open")
	}
	for name, got := range map[string][]byte{
		"another old secret": mesh.Unseal(another, sealed, 7, "a", "b"),
		"generation":         mesh.Unseal(secret, sealed, 8, "a", "b"),
		"sender":             mesh.Unseal(secret, sealed, 7, "b", "b"),
		"ends moved":         mesh.Unseal(secret, sealed, 7, "", "ab"),
		"cut":                mesh.Unseal(secret, sealed[:len(sealed)-1], 7, "a", "b"),
		"empty":              mesh.Unseal(secret, nil, 7, "a", "b"),
		"flipped":            mesh.Unseal(secret, append(append([]byte{}, sealed[:20]...), append([]byte{sealed[20] ^ 1}, sealed[21:]...)...), 7, "a", "b"),
	} {
		if got != nil {
			t.Errorf("%s: it opens", name)
		}
	}
	if bytes.Contains(sealed, another[:8]) || bytes.Equal(sealed, mesh.SealFor(secret, another, 7, "a", "b")) {
		t.Error("it is not sealed, or twice in the same way")
	}
	if strings.Contains(mesh.NameOf(secret), base64.StdEncoding.EncodeToString(secret)[:6]) || mesh.NameOf(secret) == mesh.NameOf(another) {
		t.Error("the name of a secret")
	}
}

// FuzzSecretMessage: whatever a member signs, the node stays as it is or has a secret that was sealed for it.
func FuzzSecretMessage(f *testing.F) {
	f.Add([]byte(offered(1, nil)))
	f.Add([]byte(`{"step":"ask"}`))
	f.Add([]byte(`{"step":"use","generation":18446744073709551615,"secret":""}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := mesh.NewRotation(mesh.RotationConfig{ID: "n02", Name: "node2", Secret: mesh.ReadSecret(mesh.SecretConfig{Secret: secret}), Keys: keys(t, mesh.KeyConfig{Secret: secret}),
			Members: func() (alive, failed, left []mesh.Member) { return nil, nil, nil }})
		_ = r.Take("n01", body)
		switch g, at, name := r.SecretState(); {
		case at == "done" && g == 0 && name == mesh.NameOf(secret):
		case at == "accept" && name == mesh.NameOf(another):
		default:
			t.Errorf("%q leads to %d %s", body, g, at)
		}
	})
}

// TestWordTakenBackWhileOthersAreAskedIsNoFault: the second secret has gone by the time somebody turns out to know neither.
func TestWordTakenBackWhileOthersAreAskedIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		defer c.end()
		stranger := c.add(3, mesh.SecretConfig{Secret: bytes.Repeat([]byte{9}, 32)})
		answer := make(chan string, 1)
		takeBack := sync.OnceFunc(func() {
			_, text := c.nodes[0].send(c.nodes[1], fmt.Sprintf(`{"step":"drop","generation":1,"secret":%q,"lead":"run"}`, mesh.NameOf(another)))
			answer <- text
		})
		c.mu.Lock()
		c.after = func(at *holder, step string) {
			if at == stranger && step == "ask" {
				takeBack()
			}
		}
		c.mu.Unlock()
		c.nodes[0].send(c.nodes[1], offered(1, nil))
		if text := <-answer; !strings.Contains(text, `"ok":true`) {
			t.Errorf("it is not taken back: %s", text)
		}
		time.Sleep(10 * time.Second)
		if c.nodes[1].rotation.Second() {
			t.Error("it has a second secret again")
		}
	})
}

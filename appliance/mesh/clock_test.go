package mesh_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/appliance/mesh"
)

func TestRequestsOutOfTheirTimeAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keys(t, mesh.KeyConfig{Secret: secret})
		_, v := ends(t, k)
		time.Sleep(time.Hour)
		for off, want := range map[time.Duration]string{
			-31 * time.Second: "clock", -30 * time.Second: "<nil>", 0: "<nil>", 30 * time.Second: "<nil>", 31 * time.Second: "clock", 24 * time.Hour: "clock",
		} {
			s := mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: k, Now: func() time.Time { return time.Now().Add(off) }})
			if _, err := v.Check(arrived(t, signedRequest(t, s, "n02", ""))); code(err) != want {
				t.Errorf("%v off: %v", off, err)
			}
		}
	})
}

func TestNoReplayAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keys(t, mesh.KeyConfig{Secret: secret})
		_, v := ends(t, k)
		s := mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: k, Now: func() time.Time { return time.Now().Add(30 * time.Second) }})
		time.Sleep(50 * time.Second) // in the middle of a generation of nonces
		r := arrived(t, signedRequest(t, s, "n02", ""))
		if _, err := v.Check(r); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			time.Sleep(time.Second)
			if _, err := v.Check(r); err == nil {
				t.Fatal("a replay passed")
			}
			_, _ = v.Check(arrived(t, signedRequest(t, s, "n02", ""))) // generations turn
		}
	})
}

func TestClockSetBackOpensNoReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keys(t, mesh.KeyConfig{Secret: secret})
		back := time.Duration(0)
		s, _ := ends(t, k)
		v := mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: k, Now: func() time.Time { return time.Now().Add(-back) }})
		r := arrived(t, signedRequest(t, s, "n02", ""))
		if _, err := v.Check(r); err != nil {
			t.Fatal(err)
		}
		for range 20 { // others go on, so that what is old is forgotten
			time.Sleep(30 * time.Second)
			if _, err := v.Check(arrived(t, signedRequest(t, s, "n02", ""))); err != nil {
				t.Fatal(err)
			}
		}
		back = 10 * time.Minute
		if _, err := v.Check(r); err == nil {
			t.Fatal("a replay passed after the clock was set back")
		}
	})
}

func TestRestartedReceiverRefusesWhatItMayHaveSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keys(t, mesh.KeyConfig{Secret: secret})
		s, v := ends(t, k)
		r := arrived(t, signedRequest(t, s, "n02", ""))
		if _, err := v.Check(r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		_, again := ends(t, k)
		if _, err := again.Check(r); code(err) != "clock" {
			t.Fatalf("a replay at the restarted node: %v", err)
		}
		if _, err := again.Check(arrived(t, signedRequest(t, s, "n02", ""))); err != nil {
			t.Fatalf("a fresh request: %v", err)
		}
	})
}

func TestNoncesAreBoundedAndRefuseRatherThanForget(t *testing.T) {
	now := time.Now()
	c := mesh.NewNonces(time.Minute, 100)
	of := func(i int) (n [16]byte) { n[0], n[1] = byte(i), byte(i>>8); return n }
	for i := range 100 {
		if fresh, room := c.Add(of(i), now); !fresh || !room {
			t.Fatal("refused too early")
		}
	}
	if _, room := c.Add(of(100), now); room {
		t.Fatal("no bound")
	}
	if fresh, _ := c.Add(of(0), now.Add(59*time.Second)); fresh {
		t.Fatal("forgot one to make room")
	}
	if fresh, room := c.Add(of(101), now.Add(61*time.Second)); !fresh || !room {
		t.Fatal("no room after the time is over")
	}
	if fresh, _ := c.Add(of(99), now.Add(61*time.Second)); fresh {
		t.Fatal("forgot the younger generation with the older")
	}
}

func TestForgedClockTeachesNothing(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	_, v := ends(t, k)
	slow := mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: k, Now: func() time.Time { return time.Now().Add(-5 * time.Minute) }})
	req := signedRequest(t, slow, "n02", "")
	_, refused := v.Check(arrived(t, req))
	answer := func(change func(http.Header)) *http.Response {
		w := httptest.NewRecorder()
		mesh.WriteRefusal(w, refused)
		change(w.Header())
		resp := w.Result()
		resp.Header = w.Header()
		return resp
	}
	for name, change := range map[string]func(http.Header){
		"another time":    func(h http.Header) { h.Set("X-Viiwork-Time", fmt.Sprint(time.Now().Add(24*time.Hour).UnixMilli())) },
		"no proof":        func(h http.Header) { h.Del("X-Viiwork-Signature") },
		"another reason":  func(h http.Header) { h.Set("X-Viiwork-Refused", "replayed") },
		"no time":         func(h http.Header) { h.Del("X-Viiwork-Time") },
		"another's proof": func(h http.Header) { h.Set("X-Viiwork-Signature", strings.Repeat("A", 43)) },
	} {
		if slow.Learn(req, answer(change)) || slow.Skew("n02") != 0 {
			t.Errorf("%s: learned", name)
		}
	}
	if slow.Learn(signedRequest(t, slow, "n02", ""), answer(func(http.Header) {})) {
		t.Error("the answer to another request taught something")
	}
	if !slow.Learn(req, answer(func(http.Header) {})) {
		t.Fatal("the true answer taught nothing")
	}
	if d := (slow.Skew("n02") - 5*time.Minute).Abs(); d > time.Minute {
		t.Errorf("learned %v", slow.Skew("n02"))
	}
	if _, err := v.Check(arrived(t, signedRequest(t, slow, "n02", ""))); err != nil {
		t.Errorf("corrected request: %v", err)
	}
}

func TestStrangersGetNoProofOfTheClock(t *testing.T) {
	_, v := ends(t, keys(t, mesh.KeyConfig{Secret: secret}))
	stranger := mesh.NewSigner(mesh.SignerConfig{ID: "n01", Keys: keys(t, mesh.KeyConfig{}), Now: func() time.Time { return time.Unix(1, 0) }})
	_, err := v.Check(arrived(t, signedRequest(t, stranger, "n02", "")))
	w := httptest.NewRecorder()
	mesh.WriteRefusal(w, err)
	if w.Code != 403 || w.Header().Get("X-Viiwork-Signature") != "" || w.Header().Get("X-Viiwork-Time") == "" || !strings.Contains(w.Body.String(), `"code":"open_mesh"`) {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func FuzzCheck(f *testing.F) {
	k := keys(f, mesh.KeyConfig{Secret: secret})
	v := mesh.NewVerifier(mesh.VerifierConfig{ID: "n02", Keys: k})
	now := fmt.Sprint(time.Now().UnixMilli())
	f.Add("n01", "n02", now, strings.Repeat("A", 22), strings.Repeat("A", 43), strings.Repeat("A", 43), "1", "/x?y")
	f.Add("", "n02", "-1", "\n", "=", "é", "1,1", "*")
	f.Fuzz(func(t *testing.T, from, to, at, nonce, digest, sum, hop, path string) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.URL.Path = path
		for name, value := range map[string]string{"From": from, "To": to, "Time": at, "Nonce": nonce, "Digest": digest, "Signature": sum, "Hop": hop, "Wire": "2"} {
			r.Header.Set("X-Viiwork-"+name, value)
		}
		if peer, err := v.Check(r); err == nil {
			t.Fatalf("a stranger passed as %+v", peer)
		}
	})
}

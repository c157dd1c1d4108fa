package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"viiwork/appliance/kvshare/replica"
	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
)

func TestAStateArrivesWhole(t *testing.T) {
	for _, c := range []struct {
		path   string
		direct int
	}{{"mesh", 0}, {"direct", freePort(t)}} {
		t.Run(c.path, func(t *testing.T) {
			s := newStates(300, 40_000)
			asks, has := pair(t, s, c.direct)
			state, err := asks.client.Manifest(within(t), has.Member, link)
			if err != nil {
				t.Fatal(err)
			}
			m := state.Manifest
			if state.Name != link || state.Last != link || !bytes.Equal(m.Append(nil), s.manifest.Append(nil)) {
				t.Error("the manifest is another")
			}
			a := arrive(t, s)
			got, err := asks.client.Fetch(within(t), has.Member, m, s.all(), a.put)
			if err != nil {
				t.Fatal(err)
			}
			a.isWhole()
			if got.Path != c.path || got.Bytes != s.manifest.Size || got.Took <= 0 {
				t.Errorf("moved %+v", got)
			}
			if bps, left := has.client.Sends(); bps <= 0 || left != 0 {
				t.Errorf("the sender tells of %.0f bytes a second and %s", bps, left)
			}
		})
	}
}

func TestOnlyWhatIsLackedTravels(t *testing.T) {
	s := newStates(100, 1000)
	asks, has := pair(t, s, 0)
	a := arrive(t, s)
	got, err := asks.client.Fetch(within(t), has.Member, s.manifest, []int{3, 97, 50}, a.put)
	if err != nil {
		t.Fatal(err)
	}
	if got.Bytes != 3000 || a.count() != 3 || a.once[3] != 1 || a.once[50] != 1 || a.once[97] != 1 {
		t.Errorf("moved %+v, %v", got, a.once)
	}
	if got, err := asks.client.Fetch(within(t), has.Member, s.manifest, nil, a.put); err != nil || got.Bytes != 0 {
		t.Errorf("of nothing came %+v, %v", got, err)
	}
}

func TestWhoHasNoStateSaysSo(t *testing.T) {
	asks, has := pair(t, newStates(1, 10), 0)
	if _, err := asks.client.Manifest(within(t), has.Member, strings.Repeat("f", 32)); !errors.Is(err, transfer.ErrNone) {
		t.Errorf("%v", err)
	}
}

func TestAChunkThatIsGoneIsNamed(t *testing.T) {
	s := newStates(10, 1000)
	s.asked = func(n int, b []byte) ([]byte, error) {
		if n == 4 {
			return nil, errGone
		}
		return b, nil
	}
	for _, port := range []int{0, freePort(t)} {
		s.n = 0
		asks, has := pair(t, s, port)
		a := arrive(t, s)
		got, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
		if !errors.Is(err, transfer.ErrGone) || a.count() != 4 || got.Bytes != 4000 {
			t.Errorf("%v after %d chunks, %+v", err, a.count(), got)
		}
	}
}

// The manifest decides what is believed: it must come from the member itself, and answer this very question.
func TestAManifestThatSomebodyElseMadeIsRefused(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	s, lie := newStates(3, 1000), newStates(4, 1000)
	between := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&swapped{w, lie.manifest.Append(nil)}, r)
		})
	}
	has := start(t, "b", plan{keys: k, source: s, wrap: between})
	asks := start(t, "a", plan{keys: k, source: &states{}})
	if _, err := asks.client.Manifest(within(t), has.Member, link); !errors.Is(err, mesh.ErrForgedAnswer) {
		t.Errorf("%v", err)
	}
}

// swapped sends another body under the headers of the right one.
type swapped struct {
	http.ResponseWriter
	body []byte
}

func (s *swapped) Write([]byte) (int, error) { return s.ResponseWriter.Write(s.body) }

func TestAWrongChunkIsNeverPut(t *testing.T) {
	s := newStates(50, 1000)
	tenth := &s.bytes[10*1000]
	s.asked = func(n int, b []byte) ([]byte, error) {
		if &b[0] != tenth {
			return b, nil
		}
		b = slices.Clone(b)
		b[500] ^= 1
		return b, nil
	}
	asks, has := pair(t, s, freePort(t))
	a := arrive(t, s) // it knows right from wrong
	_, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
	if err == nil || strings.Count(err.Error(), "other bytes") != 2 || a.count() != 10 {
		t.Errorf("%v after %d chunks", err, a.count())
	}
}

func TestAChunkThatCameWrongIsTakenByTheOtherPath(t *testing.T) {
	s := newStates(50, 1000)
	s.asked = func(n int, b []byte) ([]byte, error) {
		if n == 10 {
			return make([]byte, len(b)), nil
		}
		return b, nil
	}
	asks, has := pair(t, s, freePort(t))
	a := arrive(t, s)
	got, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
	if err != nil || got.Path != "mesh" || got.Bytes != 50_000 {
		t.Errorf("%+v, %v", got, err)
	}
	a.isWhole()
}

func TestAMemberThatAnswersWronglyIsNamed(t *testing.T) {
	k := keys(t, mesh.KeyConfig{Secret: secret})
	s := newStates(2, 4)
	frame := func(b []byte) string { return "\x00\x00\x00" + string(rune(len(b))) + string(b) }
	whole := frame(s.bytes[:4]) + frame(s.bytes[4:])
	for _, c := range []struct {
		name, body, want string
		came             int
	}{
		{"too much", whole + "x", "more than it was asked for", 2},
		{"too little", whole[:len(whole)-1], "stopped sending", 1},
		{"nothing", "", "stopped sending", 0},
		{"another length", frame([]byte("abc")) + whole[8:], "other bytes", 0},
		{"a vast length", "\xff\xff\xff\xff" + whole, "other bytes", 0},
		{"others", frame([]byte("abcd")) + whole[8:], "other bytes", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(c.body)) })
			has := start(t, "b", plan{keys: k, wrong: wrong})
			asks := start(t, "a", plan{keys: k, config: func(c *transfer.Config) { c.Trusted = nil }})
			a := arrive(t, s)
			_, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
			if c.came == 2 && err == nil {
				a.isWhole() // nothing is lacked any more: what came is what was asked for
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || a.count() != c.came {
				t.Errorf("%v after %d chunks", err, a.count())
			}
		})
	}
}

func TestWhatPutRefusesEndsTheFetch(t *testing.T) {
	s := newStates(50, 1000)
	asks, has := pair(t, s, freePort(t))
	a := arrive(t, s)
	full := errors.New("the disk is full")
	a.want = func(i int) error {
		if i == 5 {
			return full
		}
		return nil
	}
	_, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put)
	if !errors.Is(err, full) || a.count() != 6 {
		t.Errorf("%v after %d chunks", err, a.count())
	}
}

func TestAFetchEndsWithItsContext(t *testing.T) {
	s := newStates(100, 100_000)
	asks, has := pair(t, s, 0)
	why := errors.New("it took too long")
	ctx, cancel := context.WithCancelCause(within(t))
	a := arrive(t, s)
	a.want = func(i int) error {
		if i == 20 {
			cancel(why)
		}
		return nil
	}
	if _, err := asks.client.Fetch(ctx, has.Member, s.manifest, s.all(), a.put); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	if a.count() == 100 {
		t.Error("it went on")
	}
}

// A secret is replaced while a state is on its way: every request is signed and judged anew.
func TestASecretRotatedMidTransferFailsNothing(t *testing.T) {
	for _, port := range []int{0, freePort(t)} {
		s := newStates(24, mib) // more than is asked for at first
		asks, has := pair(t, s, port)
		a := arrive(t, s)
		a.want = func(i int) error {
			switch i {
			case 0:
				has.keys.Store(keys(t, mesh.KeyConfig{Secret: other, Prev: secret}))
			case 1:
				asks.keys.Store(keys(t, mesh.KeyConfig{Secret: other, Prev: secret}))
			case 2:
				has.keys.Store(keys(t, mesh.KeyConfig{Secret: other}))
				asks.keys.Store(keys(t, mesh.KeyConfig{Secret: other}))
			}
			return nil
		}
		if _, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), a.put); err != nil {
			t.Error(err)
		}
		a.isWhole()
	}
}

func TestStrangersLearnNothing(t *testing.T) {
	s := newStates(1, 1000)
	k := keys(t, mesh.KeyConfig{Secret: secret})
	has := start(t, "b", plan{keys: k, source: s})
	asks := start(t, "x", plan{keys: keys(t, mesh.KeyConfig{Secret: other}), source: s})
	if _, err := asks.client.Manifest(within(t), has.Member, link); err == nil || errors.Is(err, transfer.ErrNone) {
		t.Errorf("a manifest for who has another secret: %v", err)
	}
	if _, err := asks.client.Fetch(within(t), has.Member, s.manifest, s.all(), arrive(t, s).put); err == nil {
		t.Error("chunks for who has another secret")
	}
	resp, err := http.Post("http://"+has.Addr+transfer.ChunksPath, "application/octet-stream", bytes.NewReader(make([]byte, 40)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("unsigned: %d", resp.StatusCode)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	s := newStates(1, 1000)
	asks, has := pair(t, s, 0)
	for path, bodies := range map[string][]string{
		transfer.ManifestPath: {"", "abc", strings.Repeat("x", 33)},
		transfer.ChunksPath:   {"", "12345678", strings.Repeat("x", 39), strings.Repeat("x", 8+32*4097)},
		transfer.DirectPath:   {"", strings.Repeat("x", 31)},
	} {
		for _, body := range bodies {
			resp, err := asks.mesh.Post(within(t), has.Member, path, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s with %d bytes: %d", path, len(body), resp.StatusCode)
			}
		}
	}
}

// Whoever asks for what he may not know by its sum gets nothing that he could not have had.
func TestASumThatIsNotHereBringsNothing(t *testing.T) {
	s, unknown := newStates(3, 1000), newStates(4, 2000)
	asks, has := pair(t, s, 0)
	_, err := asks.client.Fetch(within(t), has.Member, unknown.manifest, []int{2}, func(int, []byte) error { t.Error("put"); return nil })
	if !errors.Is(err, transfer.ErrGone) {
		t.Errorf("%v", err)
	}
}

// What a member sends is taken up to the first byte that is not what it should be, and never further.
func FuzzAnswer(f *testing.F) {
	parts := []string{"a", "bcd", strings.Repeat("e", 300), "fg"}
	var m replica.Manifest
	var frames []string
	for _, p := range parts {
		m.Chunks = append(m.Chunks, replica.Chunk{Sum: sha256.Sum256([]byte(p)), Size: uint32(len(p))})
		frames = append(frames, string(binary.BigEndian.AppendUint32(nil, uint32(len(p))))+p)
	}
	whole := strings.Join(frames, "")
	for _, body := range []string{whole, whole + "x", whole[:20], frames[0] + "\x00\x00\x00\x00" + frames[2], "\xff\xff\xff\xff" + whole, ""} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want := 0
		for rest := string(body); want < len(frames) && strings.HasPrefix(rest, frames[want]); want++ {
			rest = rest[len(frames[want]):]
		}
		n := 0
		done, err := transfer.TakeAnswer(m, bytes.NewReader(body), func(i int, b []byte) error {
			if i != n || string(b) != parts[i] {
				t.Errorf("as chunk %d came %d: %q", n, i, b)
			}
			n++
			return nil
		})
		if n != want || done != want || (err == nil) != (string(body) == whole) {
			t.Errorf("%d chunks were put and %d counted of %d that are right: %v", n, done, want, err)
		}
	})
}

var _ transfer.Source = (*states)(nil)

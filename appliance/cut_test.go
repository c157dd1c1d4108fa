package appliance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/status"
)

// TestWhatMembersTellIsCut to bounds, wherever in it it stands, and nothing in it is left that a page or terminal would obey.
func TestWhatMembersTellIsCut(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	v := status.View{Refused: map[string]int{"m": 1, long: 2}, Power: &status.Power{}}
	v.Node.Models = []status.Model{{Name: long, Backends: []status.Backend{{Error: "a\x1b[2Jb\nc\u202ed", Slots: make([]status.Slot, 5000)}}}}
	v.Requests = make([]status.Request, 5000)
	appliance.Cut(&v)
	b := v.Node.Models[0].Backends[0]
	if len(v.Requests) > 1024 || len(b.Slots) > 1024 || len(v.Node.Models[0].Name) > 403 || len(v.Refused) != 1 {
		t.Errorf("%d requests, %d slots, a name of %d bytes, %d models refused", len(v.Requests), len(b.Slots), len(v.Node.Models[0].Name), len(v.Refused))
	}
	if strings.ContainsAny(b.Error, "\x1b\n\u202e") || !strings.Contains(b.Error, "[2Jb c") {
		t.Errorf("%q", b.Error)
	}
}

// FuzzWhatMembersTell: no answer of a member makes this node stumble.
func FuzzWhatMembersTell(f *testing.F) {
	f.Add([]byte(`{"node":{"models":[{"name":"m","backends":[{"id":"m#0","slots":[{}]}]}]},"requests":[{"id":"x"}],"firsts":[{"counts":[-1,1]}],"refused":{"m":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v status.View
		if json.Unmarshal(data, &v) != nil {
			return
		}
		appliance.Cut(&v)
		own := status.View{Node: status.Node{Node: "own", Models: []status.Model{{Name: "m"}}}, Refused: map[string]int{}}
		if _, err := json.Marshal(appliance.BoardOf(time.Now(), own, v, v)); err != nil {
			t.Error(err)
		}
	})
}

// TestOneMembersNonsenseCostsNobodyTheBoard: no figure or time that a member tells keeps others' pages from being made, and no
// answer of it makes them huge.
func TestOneMembersNonsenseCostsNobodyTheBoard(t *testing.T) {
	backends := make([]string, 300)
	for i := range backends {
		backends[i] = fmt.Sprintf(`{"id":"m#%d","slots":[%s{}]}`, i, strings.Repeat("{},", 900))
	}
	slots := strings.Join(backends, ",")
	for what, doc := range map[string]string{
		"watts":      `{"node":{"node":"a","gpus":[{"watts":1.7e308}]},"power":{"watts":1.7e308,"kwh_today":1.7e308}}`,
		"rates":      `{"node":{"node":"a"},"requests":[{"id":"x","ttft_ms":1e300,"output_tokens":9223372036854775807,"state":"generating","time":"2026-01-01T00:00:00Z"}]}`,
		"far future": `{"node":{"node":"a"},"time":"9999-12-31T23:59:59-23:00","started":"9999-12-31T23:59:59-23:00","requests":[{"id":"x","time":"9999-12-31T23:59:59-23:00"}]}`,
		"far past":   `{"node":{"node":"a"},"time":"0000-01-01T00:00:00+23:00","started":"0000-01-01T00:00:00+23:00","requests":[{"id":"x","time":"0000-01-01T00:00:00+23:00"}]}`,
		"seconds":    `{"node":{"node":"a"},"kv":{"mode":"pull","pairs":[{"from":"a","seconds":1e308}]},"uses":[{"origin":"x","prompt_tokens":9223372036854775807}]}`,
		"slots":      `{"node":{"node":"a","models":[{"name":"m","backends":[` + slots + `]}]}}`,
	} {
		var v status.View
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(what, err)
		}
		appliance.Cut(&v)
		b := appliance.BoardOf(time.Now(), status.View{Node: status.Node{Node: "own", Warnings: []status.Warning{{ID: "w"}}}}, v, v)
		data, err := json.Marshal(b)
		if err != nil || len(data) > 8<<20 {
			t.Errorf("%s: the board has %d bytes, %v", what, len(data), err)
		}
	}
}

// TestADayOfFiguresIsWhole: a member tells one for each minute.
func TestADayOfFiguresIsWhole(t *testing.T) {
	day := status.Series{Lines: []status.Line{{Name: "watts", Values: make([]*float64, 24*60)}}}
	appliance.Cut(&day)
	if n := len(day.Lines[0].Values); n != 24*60 {
		t.Errorf("%d of them are left", n)
	}
}

// TestWhatOlderMembersDoNotTellIsNotZero.
func TestWhatOlderMembersDoNotTellIsNotZero(t *testing.T) {
	own := status.View{Node: status.Node{Node: "own", Models: []status.Model{{Name: "m", Backends: []status.Backend{{ID: "m#0"}}}}}}
	for _, doc := range []string{
		`{"node":{"node":"old"}}`, `{"node":{"node":"old","gpus":null,"warnings":null,"models":null},"refused":null,"power":null,"kv":null,"time":null,"started":null}`,
	} {
		var old status.View
		if err := json.Unmarshal([]byte(doc), &old); err != nil {
			t.Fatal(err)
		}
		appliance.Cut(&old)
		b := appliance.BoardOf(time.Now(), own, old)
		m := b.Machines[1]
		if m.Cards != nil || m.Warnings != nil || m.Started != nil || m.SkewMS != nil || m.Watts != nil || m.KWhToday != nil || m.Memory != nil {
			t.Errorf("it has figures: %+v", m)
		}
		if refused := b.Served[0].Refused; refused != nil || len(b.Moves) != 0 {
			t.Errorf("refusals %v, moves %+v", refused, b.Moves)
		}
	}
}

// TestTimesAreByTheClockOfWhoShowsThem: a request of a member whose clock is wrong is as old as it is, and a clock that stays as
// it is tells the same each time.
func TestTimesAreByTheClockOfWhoShowsThem(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for _, ahead := range []time.Duration{0, 300 * time.Millisecond, 10 * time.Minute, -26 * time.Hour} {
		theirs := now.Add(ahead)
		v := status.View{Node: status.Node{Node: "b"}, Time: theirs, Started: theirs.Add(-time.Hour), Requests: []status.Request{
			{ID: "x", Entry: "b", Model: "m", State: "queued", Time: theirs.Add(-20 * time.Second)},
		}}
		own := status.View{Node: status.Node{Node: "own", Models: []status.Model{{Name: "m", Backends: []status.Backend{{ID: "m#0"}}}}}}
		b := appliance.BoardOf(now, own, v)
		if off := b.Requests[0].Time.Sub(now.Add(-20 * time.Second)).Abs(); off > time.Second {
			t.Errorf("with a clock %v ahead a request is %v off", ahead, off)
		}
		if oldest := b.Served[0].OldestMS; oldest == nil || *oldest < 19000 || *oldest > 21000 {
			t.Errorf("with a clock %v ahead the oldest waits for %v", ahead, oldest)
		}
		if off := b.Machines[1].Started.Sub(now.Add(-time.Hour)).Abs(); off > 5*time.Second {
			t.Errorf("with a clock %v ahead its start is %v off", ahead, off)
		}
	}
	const ms = time.Millisecond
	for i, skew := range appliance.Skewed(30200*ms, 30300*ms, 30240*ms, 30260*ms, 29900*ms, 60000*ms, -700*ms) {
		if want := []time.Duration{30000 * ms, 30000 * ms, 30000 * ms, 30000 * ms, 30000 * ms, 60000 * ms, -500 * ms}[i]; skew != want {
			t.Errorf("the %d. answer gives %v, want %v", i, skew, want)
		}
	}
}

// TestReleasesAreTold apart, and a build that has no release's number is neither newer nor older.
func TestReleasesAreTold(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"2.1.0", "2.0.9", true}, {"v2.10.0", "v2.9.0", true}, {"2.0.0", "2.0.0", false}, {"2.0.0", "2.0.1", false}, {"2.0.0-5-gabc", "2.0.0", true},
		{"2.0.0", "test", false}, {"test", "2.0.0", false}, {"2.0", "1.0.0", false}, {"2.0.0", "", true}, {"", "", false}, {"99999999999999999999.0.0", "1.0.0", false},
	} {
		if got := appliance.Newer(c.a, c.b); got != c.want {
			t.Errorf("%q newer than %q: %t", c.a, c.b, got)
		}
	}
}

// TestNobodyElseSaysWhatBecameOfOurRequests: who names one of this node's as one that came in by itself is not believed.
func TestNobodyElseSaysWhatBecameOfOurRequests(t *testing.T) {
	own := status.View{Node: status.Node{Node: "own"}, Requests: []status.Request{{ID: "x", Entry: "own", Model: "m", State: "done", Status: 200}}}
	other := status.View{Node: status.Node{Node: "other"}, Requests: []status.Request{{ID: "x", Entry: "other", Model: "n", State: "queued"}}}
	all := appliance.BoardOf(time.Now(), own, other).Requests
	if len(all) != 1 || all[0].Entry != "own" || all[0].Model != "m" || all[0].Live {
		t.Errorf("%+v", all)
	}
}

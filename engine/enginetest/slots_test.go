package enginetest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"viiwork/engine/enginetest"
)

// heldAfter is what the slot of the newest task holds.
func (tg target) heldAfter() int {
	newest, held := -1, -1
	for _, v := range tg.slotViews() {
		if task := intAt(v, "id_task"); task > newest {
			newest, held = task, intAt(v, "n_prompt_tokens")
		}
	}
	return held
}

// slotHoldsAnswer: the last token of an answer was never an input. Who looks for the slot of an answer counts on it.
func slotHoldsAnswer(tg target) {
	const endOfTurn = 258
	text := unique(300)
	said := at(tg.post(chatPath, chat(text, 12)).json(tg.t), "choices", "message", "content").(string)
	for _, b := range []body{
		chat(unique(300), 9), chat(unique(300), 1), chat(text, 12, "stop", said[5:8]),
		chat(unique(300), 80, "ignore_eos", false, "logit_bias", [][2]float64{{endOfTurn, 100}}),
	} {
		r := tg.post(chatPath, b).json(tg.t)
		total := intAt(r, "usage", "total_tokens")
		if held := tg.heldAfter(); held != total-1 {
			tg.t.Errorf("after an answer that ended by %q with %d tokens in all the slot holds %d, want one less",
				at(r, "choices", "finish_reason"), total, held)
		}
	}
}

// slotFileIsWhole holds the layout of the fake's files against the engine's: 4 layers of 2 KV heads of 64, at 2 bytes.
func slotFileIsWhole(tg target) {
	const tokens = 333
	tg.post("/completion", body{"prompt": unique(tokens), "n_predict": 1, "id_slot": 0})
	saved := tg.post("/slots/0?action=save", body{"filename": "whole.bin"}).json(tg.t)
	data, err := os.ReadFile(filepath.Join(tg.dir, "whole.bin"))
	if err != nil {
		tg.t.Fatal(err)
	}
	const row, layers = 2 * 64 * 2, 4
	want := 24 + 4*tokens + 4 + 8 + 12*tokens + 16 + 2*layers*(12+row*tokens)
	if len(data) != want || intAt(saved, "n_written") != want {
		tg.t.Errorf("the file has %d bytes, %d were told, want %d", len(data), intAt(saved, "n_written"), want)
	}
	cells := 24 + 4*tokens + 4
	words := []uint32{4, tokens + 4, 0xffffffff, 1, tokens}
	if string(data[:4]) != "qsgg" || !bytes.Equal(data[4:24], binaryOf(words)) {
		tg.t.Errorf("the file begins with %x", data[:24])
	}
	if !bytes.Equal(data[cells:cells+20], binaryOf([]uint32{1, tokens, 0, 1, 0})) {
		tg.t.Errorf("its cells begin with %x", data[cells:cells+20])
	}
	head := cells + 8 + 12*tokens
	if !bytes.Equal(data[head:head+28], binaryOf([]uint32{0, layers, 0, 0, 1, row, 0})) {
		tg.t.Errorf("its layers begin with %x", data[head:head+28])
	}
}

func binaryOf(words []uint32) []byte {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func busySlotIsSavedLater(tg target) {
	text := unique(200)
	running := tg.open("/completion", body{"prompt": text, "n_predict": 300, "ignore_eos": true, "stream": true, "id_slot": 0})
	running.next("content")
	saved := tg.post("/slots/0?action=save", body{"filename": "busy.bin"}).json(tg.t)
	if got := intAt(saved, "n_saved"); got != 499 {
		tg.t.Errorf("%d tokens saved of a slot that was to hold 499 in the end", got)
	}
}

// abandonedSave holds while the engine has a result at least once a second, whosever: after a second without one it looks for
// clients that have left, and a busy machine may hold it up for as long. Then it is asked again.
func abandonedSave(tg target) {
	for range 20 {
		made, gap := tg.abandonSave()
		if made {
			return
		}
		if gap < 300*time.Millisecond {
			tg.t.Fatalf("the save was not made, though something was generated at least every %s", gap)
		}
	}
	tg.t.Fatal("the engine was held up each time")
}

// abandonSave asks for a save of a busy slot, leaves once it waits for the slot, and tells whether it was made, and the longest
// time in which nothing was heard of the slot.
func (tg target) abandonSave() (made bool, gap time.Duration) {
	ctx, leave := context.WithCancel(tg.t.Context())
	running := tg.open("/completion", body{"prompt": unique(200), "n_predict": 700, "ignore_eos": true, "stream": true, "id_slot": 0})
	defer running.close()
	running.next("content")
	late := filepath.Join(tg.dir, "late.bin")
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		resp, err := client.Do(tg.request(ctx, http.MethodPost, "/slots/0?action=save", body{"filename": filepath.Base(late)}))
		if err == nil {
			resp.Body.Close()
		}
	}()
	is := func() bool { _, err := os.Stat(late); return err == nil }
	within(tg.t, time.Minute, "the save waits for its slot", func() bool {
		return is() || strings.Contains(string(tg.do("GET", "/metrics", nil).body), "llamacpp:requests_deferred 1\n")
	})
	leave()
	<-asked
	for last, line := time.Now(), ""; !strings.Contains(line, `"stop":true`); last = time.Now() {
		line = running.next("data: ")
		gap = max(gap, time.Since(last))
	}
	tg.post("/slots/0?action=save", body{"filename": "after.bin"}) // comes after it
	return is(), gap
}

// TestASaveStopsEverything: streams of other slots, and questions to the engine's own loop.
func TestASaveStopsEverything(t *testing.T) {
	dir := t.TempDir()
	s, tg := fake(t, enginetest.Options{Slots: 2, DecodeTPS: 1000, SaveDir: dir, StateBytes: 1 << 20, SaveBPS: 100 << 20})
	tg.post("/completion", body{"prompt": strings.Repeat("a", 100), "n_predict": 1, "id_slot": 0})
	st := tg.open("/completion", body{"prompt": "b", "n_predict": 100000, "ignore_eos": true, "stream": true, "id_slot": 1})
	st.next("content")
	saved := make(chan reply, 1)
	go func() { saved <- tg.post("/slots/0?action=save", body{"filename": "a.bin"}) }()
	var longest time.Duration
	for last := time.Now(); longest < 500*time.Millisecond; {
		st.next("content")
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
	r := (<-saved).json(t)
	if intAt(r, "n_saved") != 100 || intAt(r, "timings", "save_ms") < 900 {
		t.Errorf("saved %v, want 100 MiB in a second", r)
	}
	st.next("content")
	st.close()
	within(t, 10*time.Second, "all is idle", func() bool { return s.Stats().Active == 0 })
}

func TestARestoredSlotCanBeOfNoUse(t *testing.T) {
	dir := t.TempDir()
	s, tg := fake(t, enginetest.Options{Slots: 2, SaveDir: dir})
	text := unique(600)
	tg.post("/completion", body{"prompt": text, "n_predict": 1, "id_slot": 0})
	tg.post("/slots/0?action=save", body{"filename": "a.bin"})
	s.SetFaults(enginetest.Faults{ColdRestore: true})
	if r := tg.post("/slots/1?action=restore", body{"filename": "a.bin"}).json(t); intAt(r, "n_restored") != 600 {
		t.Errorf("restored %v", r)
	}
	for _, want := range []int{0, 600} {
		r := tg.post("/completion", body{"prompt": text + "and on", "n_predict": 1, "id_slot": 1}).json(t)
		if got := min(intAt(r, "timings", "cache_n"), 600); got != want {
			t.Errorf("%d tokens were of use, want %d", got, want)
		}
	}
	s.SetFaults(enginetest.Faults{EmptySave: true})
	if r := tg.post("/slots/1?action=save", body{"filename": "b.bin"}); r.status != 200 || intAt(r.json(t), "n_saved") != 0 {
		t.Errorf("an empty save: %d %s", r.status, r.body)
	}
}

func TestACrashInASaveLeavesAPartOfTheFile(t *testing.T) {
	dir := t.TempDir()
	s, tg := fake(t, enginetest.Options{Slots: 1, SaveDir: dir, StateBytes: 1 << 20, SaveBPS: 10 << 20})
	tg.post("/completion", body{"prompt": strings.Repeat("a", 100), "n_predict": 1})
	ended := make(chan error, 1)
	go func() {
		resp, err := client.Do(tg.request(t.Context(), http.MethodPost, "/slots/0?action=save", body{"filename": "a.bin"}))
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	path := filepath.Join(dir, "a.bin")
	within(t, 10*time.Second, "a part is written", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	})
	s.Crash()
	if err := <-ended; err == nil {
		t.Error("the save was answered")
	}
	if r := tg.post("/slots/0?action=restore", body{"filename": "a.bin"}); r.status != 400 {
		t.Errorf("a part of a file restored with %d", r.status)
	}
}

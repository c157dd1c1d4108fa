package enginetest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBehaviour is the table that the fake and the real server must both pass, row by row on one server each.
func TestBehaviour(t *testing.T) {
	bothTargets(t, func(t *testing.T, tg target) {
		for _, row := range []struct {
			promise string
			check   func(target)
		}{
			{"a prompt sent again is cached", resentPromptIsCached},
			{"progress tells the cache hit and each batch", progressTellsBatches},
			{"a third conversation on two slots comes back from RAM", ramCacheBringsBack},
			{"a slot beyond the last wraps", slotNumbersWrap},
			{"a pinned empty slot starts cold", pinnedEmptySlotIsCold},
			{"a saved slot restores into the other", savedSlotRestores},
			{"a failed restore empties the slot", failedRestoreEmpties},
			{"an empty slot saves and restores", emptySlotRestores},
			{"a slot holds an answer but for its last token", slotHoldsAnswer},
			{"a slot file has the bytes of its tokens and no more", slotFileIsWhole},
			{"a busy slot is saved once it is idle", busySlotIsSavedLater},
			{"a save that nobody waits for any more is made all the same", abandonedSave},
			{"a stop text ends the answer and is not in it", stopTextEnds},
			{"a full slot ends the answer", fullSlotEnds},
			{"requests beyond the slots wait in order", requestsQueue},
			{"leaving in generation cancels at once", leavingGenerationCancels},
			{"leaving a prefill that reports progress cancels beside a stream", leavingPrefillCancels},
			{"leaving a silent prefill is not noticed beside a stream", leavingSilentPrefillIsMissed},
			{"leaving a messages prefill is not noticed beside a stream", leavingMessagesPrefillIsMissed},
			{"leaving is noticed on a quiet server", leavingQuietServerIsNoticed},
			{"a conversation id keeps the stream going", conversationGoesOn},
			{"slots tell how far they are", slotsTellProgress},
			{"a connection that streamed is closed unannounced", streamedConnectionIsClosed},
			{"a wrong method is a 404", wrongMethodIs404},
		} {
			t.Run(row.promise, func(t *testing.T) {
				sub := tg
				sub.t = t
				row.check(sub)
				within(t, 30*time.Second, "the slots are idle again", func() bool { return sub.busy() == 0 })
			})
		}
	})
}

// unique gives prompts that no earlier row has left in a cache, but for the template's opening.
var unique = func() func(n int) string {
	next := 0
	return func(n int) string {
		next++
		return strings.Repeat(fmt.Sprintf("%d:%d,", next, next), n/2)[:n]
	}
}()

func chat(text string, max int, more ...any) body {
	b := body{"messages": user(text), "max_tokens": max, "temperature": 0, "ignore_eos": true}
	for i := 0; i+1 < len(more); i += 2 {
		b[more[i].(string)] = more[i+1]
	}
	return b
}

const chatPath = "/v1/chat/completions"

// templateTokens is what the template adds around one user's message; its first six come before all text.
const templateTokens = 19

func resentPromptIsCached(tg target) {
	b := chat(unique(500), 4)
	tg.post(chatPath, b)
	r := tg.post(chatPath, b).json(tg.t)
	if got, want := intAt(r, "usage", "prompt_tokens_details", "cached_tokens"), 500+templateTokens-1; got != want {
		tg.t.Errorf("%d tokens cached, want %d", got, want)
	}
}

func progressTellsBatches(tg target) {
	text := unique(1200)
	tg.post("/v1/completions", body{"prompt": text[:200], "max_tokens": 1})
	r := tg.post("/v1/completions", body{"prompt": text, "max_tokens": 1, "stream": true, "return_progress": true})
	var got []string
	for line := range strings.Lines(string(r.body)) {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &v) == nil && at(v, "prompt_progress") != nil {
			got = append(got, fmt.Sprint(intAt(v, "prompt_progress", "total"), intAt(v, "prompt_progress", "cache"), intAt(v, "prompt_progress", "processed")))
		}
	}
	want := []string{"1200 200 200", "1200 200 712", "1200 200 1200"}
	if !slices.Equal(got, want) {
		tg.t.Errorf("progress %q, want %q", got, want)
	}
}

func ramCacheBringsBack(tg target) {
	a, b, c := chat(unique(700), 1), chat(unique(700), 1), chat(unique(700), 1)
	for _, m := range []body{a, b, c} {
		tg.post(chatPath, m)
	}
	for _, m := range []body{a, b} {
		if got := intAt(tg.post(chatPath, m).json(tg.t), "timings", "cache_n"); got != 700+templateTokens-1 {
			tg.t.Errorf("%d of %d tokens cached", got, 700+templateTokens)
		}
	}
}

func slotNumbersWrap(tg target) {
	r := tg.post("/completion", body{"prompt": unique(50), "n_predict": 1, "id_slot": 7}).json(tg.t)
	if got := intAt(r, "id_slot"); got != 1 {
		tg.t.Errorf("slot 7 of 2 is slot %d", got)
	}
	r = tg.post("/slots/7?action=save", body{"filename": "wrap.bin"}).json(tg.t)
	if intAt(r, "id_slot") != 7 || intAt(r, "n_saved") != 50 {
		tg.t.Errorf("saving slot 7 said %v", r)
	}
}

func pinnedEmptySlotIsCold(tg target) {
	text := unique(400)
	tg.post("/completion", body{"prompt": text, "n_predict": 1, "id_slot": 0})
	tg.post("/slots/1?action=erase", nil)
	r := tg.post("/completion", body{"prompt": text, "n_predict": 1, "id_slot": 1}).json(tg.t)
	if got := intAt(r, "timings", "cache_n"); got != 0 {
		tg.t.Errorf("%d tokens cached in an empty slot", got)
	}
}

func savedSlotRestores(tg target) {
	text := unique(600)
	tg.post("/completion", body{"prompt": text, "n_predict": 1, "id_slot": 0})
	saved := tg.post("/slots/0?action=save", body{"filename": "s.bin"}).json(tg.t)
	restored := tg.post("/slots/1?action=restore", body{"filename": "s.bin"}).json(tg.t)
	if intAt(saved, "n_saved") != 600 || intAt(restored, "n_restored") != 600 || intAt(saved, "n_written") != intAt(restored, "n_read") {
		tg.t.Errorf("saved %v, restored %v", saved, restored)
	}
	r := tg.post("/completion", body{"prompt": text + "and on", "n_predict": 1, "id_slot": 1}).json(tg.t)
	if got := intAt(r, "timings", "cache_n"); got != 600 {
		tg.t.Errorf("%d tokens of 600 restored were of use", got)
	}
}

func failedRestoreEmpties(tg target) {
	tg.post("/completion", body{"prompt": unique(80), "n_predict": 1, "id_slot": 0})
	if r := tg.post("/slots/0?action=restore", body{"filename": "missing.bin"}); r.status != 400 {
		tg.t.Errorf("status %d", r.status)
	}
	if got := tg.slotViews()[0]["n_prompt_tokens"]; got != 0.0 {
		tg.t.Errorf("the slot still holds %v tokens", got)
	}
}

func emptySlotRestores(tg target) {
	tg.post("/completion", body{"prompt": unique(80), "n_predict": 1, "id_slot": 0})
	tg.post("/slots/0?action=erase", nil)
	empty := tg.post("/slots/0?action=save", body{"filename": "empty.bin"}).json(tg.t)
	if intAt(empty, "n_saved") != 0 {
		tg.t.Errorf("an empty slot saved as %v", empty)
	}
	if r := tg.post("/slots/0?action=restore", body{"filename": "empty.bin"}); r.status != 200 {
		tg.t.Errorf("restoring an empty slot: %d %s", r.status, r.body)
	}
}

func stopTextEnds(tg target) {
	// What a server says to a prompt at temperature 0 is the same each time, so its own letters give the stop text.
	text := unique(60)
	first := at(tg.post(chatPath, chat(text, 12)).json(tg.t), "choices", "message", "content").(string)
	stop := first[5:8]
	r := tg.post(chatPath, chat(text, 12, "stop", []string{stop})).json(tg.t)
	want, _, _ := strings.Cut(first, stop)
	if got := at(r, "choices", "message", "content"); got != want || at(r, "choices", "finish_reason") != "stop" {
		tg.t.Errorf("%q stopped at %q as %q, %v", first, stop, got, at(r, "choices", "finish_reason"))
	}
	streamed := tg.post("/v1/messages", body{"messages": user(text), "max_tokens": 12, "temperature": 0, "stream": true,
		"stop_sequences": []string{stop}})
	if !bytes.Contains(streamed.body, fmt.Appendf(nil, `"stop_reason":"end_turn","stop_sequence":%q`, stop)) {
		tg.t.Errorf("no stop_sequence in …%.300s", streamed.body[max(0, len(streamed.body)-300):])
	}
}

func fullSlotEnds(tg target) {
	text := unique(4096)
	r := tg.post("/completion", body{"prompt": text[:4060], "n_predict": -1, "ignore_eos": true}).json(tg.t)
	if intAt(r, "tokens_predicted") != 36 || at(r, "truncated") != true || at(r, "stop_type") != "limit" {
		tg.t.Errorf("%d tokens, truncated %v, stop %v", intAt(r, "tokens_predicted"), at(r, "truncated"), at(r, "stop_type"))
	}
	if r := tg.post("/completion", body{"prompt": text, "n_predict": 1}); r.status != 400 {
		tg.t.Errorf("a prompt as long as the context: %d", r.status)
	}
	if r := tg.post("/completion", body{"prompt": text[:4095], "n_predict": 1}); r.status != 200 {
		tg.t.Errorf("a prompt one under the context: %d %s", r.status, r.body)
	}
}

func requestsQueue(tg target) {
	inside := func(n int) func() bool {
		return func() bool {
			m := string(tg.do("GET", "/metrics", nil).body)
			running := min(n, 2)
			return strings.Contains(m, fmt.Sprintf("llamacpp:requests_processing %d\n", running)) &&
				strings.Contains(m, fmt.Sprintf("llamacpp:requests_deferred %d\n", n-running))
		}
	}
	// Two streams hold both slots until the others have come. The second holds its own until they are answered by the
	// other: two slots would answer in any order.
	first, second := tg.long(), tg.long()
	answered := make(chan int, 3)
	for i := range 3 {
		go func() {
			if r := tg.post(chatPath, chat(fmt.Sprintf("queue %d", i), 100)); r.status != 200 {
				tg.t.Errorf("request %d: %d %s", i, r.status, r.body)
			}
			answered <- i
		}()
		within(tg.t, 20*time.Second, fmt.Sprintf("%d requests are inside", i+3), inside(i+3))
	}
	first.close()
	for want := range 3 {
		if got := <-answered; got != want {
			tg.t.Errorf("request %d is answered before %d", got, want)
		}
	}
	second.close()
}

// long is a stream that goes on for as long as a row needs it.
func (tg target) long() *stream {
	s := tg.open(chatPath, chat("long", 4000, "stream", true))
	s.next(`"content":"`)
	return s
}

func leavingGenerationCancels(tg target) {
	s := tg.long()
	s.close()
	within(tg.t, 10*time.Second, "the slot is idle", func() bool { return tg.busy() == 0 })
	for _, v := range tg.slotViews() {
		if held := intAt(v, "n_prompt_tokens"); held > 3000 {
			tg.t.Errorf("a slot holds %d tokens: it went on", held)
		}
	}
}

// prefillBesideStream leaves a request in its prefill while another slot streams, and tells what became of it: the
// prompt tokens in its slot once it is idle, and whether the stream went on all the time.
func (tg target) prefillBesideStream(path string, b body) (held int, flowed bool) {
	beside := tg.long()
	flows := beside.flows()
	if b["return_progress"] == true {
		// The first event comes before the prefill.
		s := tg.open(path, b)
		s.next("{")
		s.close()
	} else {
		tg.leave(path, b)
	}
	within(tg.t, 60*time.Second, "one slot is idle", func() bool {
		busy := 0
		for _, v := range tg.slotViews() {
			if v["is_processing"] == true {
				busy++
			} else {
				held = intAt(v, "n_prompt_tokens")
			}
		}
		return busy == 1
	})
	beside.close()
	// The next one looks for one slot more than are busy: it must not count this one.
	within(tg.t, 30*time.Second, "the slots are idle", func() bool { return tg.busy() == 0 })
	return held, <-flows
}

const longPrompt = 3600

func leavingPrefillCancels(tg target) {
	for path, b := range map[string]body{
		chatPath:          chat(unique(longPrompt), 2, "stream", true, "return_progress", true),
		"/v1/completions": {"prompt": unique(longPrompt), "max_tokens": 2, "stream": true, "return_progress": true},
		"/v1/responses":   {"input": unique(longPrompt), "max_output_tokens": 2, "stream": true, "return_progress": true},
	} {
		if held, _ := tg.prefillBesideStream(path, b); held >= longPrompt {
			tg.t.Errorf("%s read its whole prompt: %d tokens", path, held)
		}
	}
}

func leavingSilentPrefillIsMissed(tg target) {
	tg.misses(chatPath, func() body { return chat(unique(longPrompt), 2, "stream", true) })
	tg.misses(chatPath, func() body { return chat(unique(longPrompt), 2) })
}

func leavingMessagesPrefillIsMissed(tg target) {
	tg.misses("/v1/messages", func() body {
		return body{"messages": user(unique(longPrompt)), "max_tokens": 2, "stream": true, "return_progress": true}
	})
}

// misses wants a leaving not to be noticed. A stream that stands still for long is none beside which that holds: where others
// have the processors, one batch takes a real server as long as it waits before it looks. Then it is asked again.
func (tg target) misses(path string, b func() body) {
	tg.t.Helper()
	for range 20 {
		switch held, flowed := tg.prefillBesideStream(path, b()); {
		case held >= longPrompt:
			return
		case flowed:
			tg.t.Fatalf("noticed after %d tokens", held)
		}
	}
	tg.t.Fatal("the server stood still each time")
}

func leavingQuietServerIsNoticed(tg target) {
	tg.leave(chatPath, chat("quiet", 4000))
	time.Sleep(4 * time.Second) // asking how it is going would keep the server from being quiet
	within(tg.t, 2*time.Second, "the slot is idle", func() bool { return tg.busy() == 0 })
}

func conversationGoesOn(tg target) {
	s := tg.open(chatPath, chat("conversation", 4000, "stream", true), "X-Conversation-Id", "c1")
	s.next(`"content":"`)
	s.close()
	time.Sleep(200 * time.Millisecond)
	if tg.busy() != 1 {
		tg.t.Error("the stream ended with its client")
	}
	var found []map[string]any
	json.Unmarshal(tg.post("/v1/streams/lookup", body{"conversation_ids": []string{"c1", "c2"}}).body, &found)
	if len(found) != 1 || found[0]["conversation_id"] != "c1" || found[0]["is_done"] != false {
		tg.t.Errorf("lookup found %v", found)
	}
	if r := tg.do("DELETE", "/v1/stream?conv_id=c1", nil); r.status != http.StatusNoContent {
		tg.t.Errorf("delete: %d", r.status)
	}
	within(tg.t, 10*time.Second, "the slot is idle", func() bool { return tg.busy() == 0 })
}

func slotsTellProgress(tg target) {
	s := tg.open(chatPath, chat(unique(1000), 4000, "stream", true))
	s.next(`"content":"`)
	var v map[string]any
	for _, sv := range tg.slotViews() {
		if sv["is_processing"] == true {
			v = sv
		}
	}
	s.close()
	if v == nil {
		tg.t.Fatal("no slot is busy")
	}
	total := 1000 + templateTokens
	read, cached, made := intAt(v, "n_prompt_tokens_processed"), intAt(v, "n_prompt_tokens_cache"), intAt(v, "next_token", "n_decoded")
	if read+cached != total || made < 1 || intAt(v, "n_prompt_tokens") < total || intAt(v, "next_token", "n_remain") != 4000-made {
		tg.t.Errorf("read %d, cached %d, made %d of %v", read, cached, made, v)
	}
}

func streamedConnectionIsClosed(tg target) {
	for streams, limit := range map[bool]time.Duration{false: 2 * time.Second, true: 30 * time.Second} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(tg.url, "http://"))
		if err != nil {
			tg.t.Fatal(err)
		}
		defer conn.Close()
		req := tg.request(tg.t.Context(), "POST", chatPath, chat("a", 2, "stream", streams))
		if err := req.Write(conn); err != nil {
			tg.t.Fatal(err)
		}
		var all bytes.Buffer
		conn.SetReadDeadline(time.Now().Add(limit))
		_, err = all.ReadFrom(conn)
		if closed := err == nil; closed != streams {
			tg.t.Errorf("stream %v: closed %v after %d bytes", streams, closed, all.Len())
		}
		if strings.Contains(all.String(), "Connection: close") {
			tg.t.Error("announced")
		}
	}
}

func wrongMethodIs404(tg target) {
	for _, q := range [][2]string{{"PUT", "/slots/0"}, {"GET", "/slots/0"}, {"DELETE", "/v1/models"}, {"GET", "/tokenize"}} {
		if r := tg.do(q[0], q[1], nil); r.status != 404 {
			tg.t.Errorf("%s %s: %d", q[0], q[1], r.status)
		}
	}
}

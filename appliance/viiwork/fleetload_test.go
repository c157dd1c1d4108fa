package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/status"
)

// outage watches an address of the tailnet from outside.
type outage struct {
	stop   chan struct{}
	probes sync.WaitGroup

	mu      sync.Mutex  // guards what follows
	answers []time.Time // when they came
}

// span is a time without an answer.
type span struct{ from, to time.Time }

func (s span) lasts() time.Duration { return s.to.Sub(s.from) }

// watch asks ten times a second until it is told to end. One that gets no answer does not hold up the next.
func (o *outage) watch(client *http.Client, url string) {
	o.stop = make(chan struct{})
	o.probes.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-o.stop:
				return
			case <-tick.C:
			}
			o.probes.Go(func() {
				if asks(client, url) {
					o.mu.Lock()
					o.answers = append(o.answers, time.Now())
					o.mu.Unlock()
				}
			})
		}
	})
}

// asks reports whether the node there is alive.
func asks(client *http.Client, url string) bool {
	resp, err := client.Get(url + "/healthz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}

func (o *outage) end() {
	close(o.stop)
	o.probes.Wait()
}

// longest is how long the address did not answer at one time, after a moment.
func (o *outage) longest(at time.Time) (d time.Duration) {
	for _, s := range o.since(at) {
		d = max(d, s.lasts())
	}
	return d
}

// since are the times of silence of a second or more that ended after a moment.
func (o *outage) since(at time.Time) (all []span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.SortFunc(o.answers, time.Time.Compare)
	for i := 1; i < len(o.answers); i++ {
		if s := (span{o.answers[i-1], o.answers[i]}); s.lasts() >= time.Second && s.to.After(at) {
			all = append(all, s)
		}
	}
	return all
}

// parts is how long before the last answer of an address a request may have begun that was the first to get none.
const parts = time.Second

// gone splits off what was asked of an address while nobody was there. What ran before is answered to its end, and who asks once
// it is there again is answered.
func (o *outage) gone(all []failure) (asked, failed []failure) {
	silent := o.since(time.Time{})
	for _, f := range all {
		if slices.ContainsFunc(silent, func(s span) bool { return f.began.After(s.from.Add(-parts)) && f.began.Before(s.to) }) {
			asked = append(asked, f)
		} else {
			failed = append(failed, f)
		}
	}
	return asked, failed
}

// talk is a conversation whose turns enter by any machine.
type talk struct {
	name     string
	messages []map[string]string
	rnd      *rand.Rand

	at     string // node of the last turn
	held   int    // tokens that it left there
	turns  int
	moves  int
	cold   []string // moves that found less than the turn before had left
	failed []string
}

func newTalk(i int) *talk {
	name := fmt.Sprint("talk-", i)
	return &talk{name: name, rnd: rand.New(rand.NewPCG(uint64(i), 1)), messages: []map[string]string{
		{"role": "system", "content": "All begin alike."}, {"role": "user", "content": strings.Repeat(name+" works on it. ", 150+10*i)},
	}}
}

// turn asks one of the machines.
func (k *talk) turn(m *mate) {
	body, _ := json.Marshal(map[string]any{"model": "m", "messages": k.messages, "max_tokens": 8, "temperature": 0})
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, m.url+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		k.failed = append(k.failed, err.Error())
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Id", k.name)
	client := http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	var doc struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Total   int `json:"total_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if err = json.NewDecoder(resp.Body).Decode(&doc); err == nil && (resp.StatusCode != http.StatusOK || len(doc.Choices) != 1) {
			err = fmt.Errorf("%s", resp.Status)
		}
	}
	if err != nil {
		k.failed = append(k.failed, fmt.Sprintf("%s at %s: %v", k.name, m.name, err))
		return
	}
	k.turns++
	node := resp.Header.Get("X-Viiwork-Node")
	if k.at != "" && k.at != node {
		k.moves++
		if doc.Usage.Details.Cached < k.held*90/100 {
			k.cold = append(k.cold, fmt.Sprintf("%s %s, turn %d, from %s to %s by %s: %d of %d tokens", time.Now().Format(time.TimeOnly), k.name, k.turns, k.at, node, resp.Header.Get("X-Viiwork-Route"), doc.Usage.Details.Cached, k.held)+"\n\t"+m.explains(resp.Header.Get("X-Viiwork-Request-Id")))
		}
	}
	k.at, k.held = node, doc.Usage.Total
	k.messages = append(k.messages, map[string]string{"role": "assistant", "content": doc.Choices[0].Message.Content},
		map[string]string{"role": "user", "content": fmt.Sprintf("turn %d: go on with it.", k.turns)})
}

// explains is why the machine sent a request where it did.
func (m *mate) explains(id string) string {
	var r struct {
		Plan *status.Plan `json:"plan"`
	}
	if code := m.call(http.MethodGet, "/api/requests/"+id, "", &r); code != http.StatusOK || r.Plan == nil {
		return fmt.Sprintf("%s does not tell why (%d)", m.name, code)
	}
	text := fmt.Sprintf("%s sent a prompt of %d there", m.name, r.Plan.PromptTokens)
	for _, c := range r.Plan.Candidates {
		text += fmt.Sprintf("; %s has %d, fetch %q, in %.1f s", c.Node, c.Held, c.Fetch, c.Total)
	}
	return text
}

// traffic is all that goes on in a fleet while it is updated.
type traffic struct {
	fl    *fleet
	talks []*talk
	stop  chan struct{}
	going sync.WaitGroup
}

// begin has everyone ask everywhere.
func (fl *fleet) begin(lasts time.Duration, talks int) *traffic {
	l := &traffic{fl: fl, stop: make(chan struct{})}
	for _, m := range fl.all {
		m.here = load{url: m.url, lasts: lasts}
		m.here.begin(2, 3)
		if fl.phone != nil {
			m.afar = load{url: fl.tailURL(m), lasts: lasts, dial: fl.phone.DialContext, pause: 100 * time.Millisecond} // a phone is no flood
			probe := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: fl.phone.DialContext}}
			m.await("the phone to meet "+m.name, func() bool { return asks(probe, m.afar.url) })
			m.tail.watch(probe, m.afar.url)
			m.afar.begin(1, 2)
		}
	}
	for i := range talks {
		k := newTalk(i)
		l.talks = append(l.talks, k)
		l.going.Go(func() {
			for {
				k.turn(fl.all[k.rnd.IntN(len(fl.all))])
				select {
				case <-l.stop:
					return
				case <-time.After(2*time.Second + time.Duration(k.rnd.IntN(2000))*time.Millisecond):
				}
			}
		})
	}
	return l
}

// end ends all, and holds against the test what may not be.
func (l *traffic) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	var ends sync.WaitGroup
	for _, m := range l.fl.all {
		ends.Go(m.here.end)
		if l.fl.phone != nil {
			ends.Go(m.afar.end)
		}
	}
	ends.Wait()
	l.going.Wait()
	for _, m := range l.fl.all {
		t.Logf("%s, by its local listener:", m.name)
		m.here.tell(t)
		if l.fl.phone != nil {
			m.tail.end()
			asked, failed := m.tail.gone(m.afar.failed)
			t.Logf("%s, by its tailnet address: %d more while nobody was there", m.name, len(asked))
			m.afar.failed = failed
			m.afar.tell(t)
		}
	}
	turns, moves, cold := 0, 0, 0
	for _, k := range l.talks {
		turns, moves, cold = turns+k.turns, moves+k.moves, cold+len(k.cold)
		for _, text := range k.cold {
			t.Log("cold: ", text)
		}
		for _, why := range k.failed {
			t.Error(why)
		}
	}
	t.Logf("%d conversations, %d turns, %d moves, %d of them warm", len(l.talks), turns, moves, moves-cold)
	if len(l.talks) > 0 && (moves < len(l.talks) || 10*cold > moves) {
		t.Errorf("%d of %d moves were warm", moves-cold, moves)
	}
}

package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAMeshOfContainersUpdatesItself: one after the other, a machine without among them, led by a container that is replaced
// itself and killed at each step; then to a version that does not hold, which the first takes back, and no other sees. Engines
// beside them are the same, in the same run, with what they hold, from the beginning to the end, and what enters elsewhere is
// answered all the time.
func TestAMeshOfContainersUpdatesItself(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes more than a minute")
	}
	fl := newBoxFleet(t, func(s shop, program []byte) {
		s.publish("v1.77.2", bytes.ReplaceAll(program, []byte("v1.77.1"), []byte("v1.77.2")))
	})
	first, entry, lead := fl.all[0], fl.all[3], fl.all[4]
	talk := &talk{at: first.fellow}
	talk.turn(t)

	if out, err := fl.says(lead, "--plan"); err != nil || !inOrder(out, "1. "+fl.all[0].name, "2. "+fl.all[1].name, "3. "+fl.all[2].name, "4. "+lead.name) {
		t.Fatalf("%v: %s", err, out)
	}
	begun := time.Now()
	gap, answered := silence(t, first.url()), ask(t, entry.fellow)
	lead.lead("v1.77.2")
	killed := fl.killing(lead, "v1.77.2")
	t.Logf("rolled out in %v, while who leads was killed at %d steps: %s; %s did not answer for %v", time.Since(begun).Round(time.Second), len(killed), strings.Join(killed, ", "),
		first.name, gap().Round(time.Millisecond))
	if len(killed) < 4 {
		t.Errorf("killed only at %q", killed)
	}
	if got := fmt.Sprint(fl.versions()); got != "[v1.77.2 v1.77.2 v1.77.2 v1.77.1 v1.77.2]" {
		t.Errorf("what runs: %s", got)
	}
	for _, m := range fl.all {
		if m.box == "" {
			continue
		}
		fl.shop.alone(m.box)
		if _, err := os.Stat(filepath.Join(m.dir, "state", "before-update", "v1.77.1", "meshlock.json")); err != nil {
			t.Errorf("no copy of small files: %v", err)
		}
	}

	fl.shop.publish("v1.77.3", dummy(t, "v1.77.3", "os.Exit(3)"))
	begun = time.Now()
	out, err := fl.says(lead, "--yes")
	t.Logf("taken back after %v; %d requests that entered elsewhere were answered, and none was not", time.Since(begun).Round(time.Second), answered())
	if want := first.name + " went back from v1.77.3: it ends as soon as it is started"; err == nil || !strings.Contains(out, want) {
		t.Errorf("%v, want %q: %s", err, want, out)
	}
	if got := fmt.Sprint(fl.versions()); got != "[v1.77.2 v1.77.2 v1.77.2 v1.77.1 v1.77.2]" {
		t.Errorf("what runs: %s", got)
	}
	for i, m := range fl.all {
		if m.box == "" {
			continue
		}
		fl.shop.alone(m.box)
		if bad, _ := os.ReadFile(filepath.Join(m.dir, "state", "swap", "state.json")); bytes.Contains(bad, []byte("v1.77.3")) != (i == 0) {
			t.Errorf("%s: %s", m.name, bad)
		}
		if m.engine == "" {
			continue
		}
		if now := fl.runs(m.engine); now != m.run {
			t.Errorf("the engine of %s was %s, is %s", m.name, m.run, now)
		}
	}
	talk.turn(t)
	if talk.cached*10 < talk.held*9 {
		t.Errorf("of %d tokens only %d were held still", talk.held, talk.cached)
	}
}

// ask has a client ask a node time and again, until the returned function tells how many answers it had. Without one it is an error.
func ask(t *testing.T, entry *fellow) (answered func() int) {
	over, told := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-over:
				told <- n
				return
			case <-time.After(100 * time.Millisecond):
			}
			if got := entry.chat("", question("tiny", fmt.Sprint(n), 30, n%2 == 0)); !got.complete(n%2 == 0) {
				t.Errorf("lost through %s: %d %v %.300s", entry.name, got.status, got.err, got.body)
			}
		}
	}()
	answered = sync.OnceValue(func() int { close(over); return <-told })
	t.Cleanup(func() { answered() })
	return answered
}

// talk is a conversation with one node.
type talk struct {
	at           *fellow
	held, cached int // tokens of its first turn, and of these those that the last one found
}

func (k *talk) turn(t *testing.T) {
	t.Helper()
	text := strings.Repeat("The engines run on. ", 60)
	s := k.at.chat("?host="+k.at.name, map[string]any{"model": "tiny", "max_tokens": 4, "temperature": 0, "messages": []map[string]string{{"role": "user", "content": text}}})
	var doc struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(s.body), &doc); err != nil || s.status != http.StatusOK || doc.Usage.Prompt == 0 {
		t.Fatalf("%d %v %.300s", s.status, s.err, s.body)
	}
	k.held, k.cached = doc.Usage.Prompt, doc.Usage.Details.Cached
}

// inOrder reports whether words follow each other in a text.
func inOrder(text string, words ...string) bool {
	for _, w := range words {
		_, rest, found := strings.Cut(text, w)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

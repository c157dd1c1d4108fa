package kvshare_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"viiwork/appliance/kvshare"
)

// What the engines of the benchmark are like: a state of 4,200 tokens has 1.1 GB, and stops all streams for half a second.
const (
	benchTokens  = 4200
	benchKVBytes = 256 << 10 // a token
	benchSaveBPS = 2e9
	benchPrefill = 400
	benchDecode  = 5 // so that a turn takes 13 s, as those of agents do
	benchAnswer  = 64
	benchHops    = 8
)

// BenchmarkOthersTurns tells what it costs those who stay that a conversation of more than 1 GiB goes to and fro between two
// nodes, at each of its turns: the 95th percentile of how long theirs take, against that without moving caches; and how long
// the one that moves waits for its first token, against computing its prompt. The engines are slow by the clock, so one round
// says all.
func BenchmarkOthersTurns(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes by the clock")
	}
	for range b.N {
		off := others(b, kvshare.Off)
		on := others(b, kvshare.Pull)
		b.ReportMetric(on.stay.Seconds()/off.stay.Seconds(), "p95/off")
		b.ReportMetric(off.stay.Seconds(), "p95-off-s")
		b.ReportMetric(on.stay.Seconds(), "p95-on-s")
		b.ReportMetric(on.move.Seconds()/(benchTokens/benchPrefill), "moved/cold")
		b.ReportMetric(float64(on.warm)/(benchHops-1)*100, "warm%")
	}
}

// seen is what the turns of one run were like.
type seen struct {
	stay time.Duration // the 95th percentile of the turns of those who stay
	move time.Duration // the mean time to the first token of one that has moved
	warm int           // of its moves
}

func others(b *testing.B, mode kvshare.Mode) (out seen) {
	args := []string{
		"--fake-state-bytes", strconv.Itoa(benchKVBytes), "--fake-save-bps", fmt.Sprint(benchSaveBPS), "--fake-prefill-tps", strconv.Itoa(benchPrefill),
		"--fake-decode-tps", strconv.Itoa(benchDecode),
	}
	var hosts []*host
	var members []*member
	for i := range 2 {
		h := newHost(b, plan{prefill: benchPrefill, slots: 3, args: args, mode: mode, budget: 8 << 30, spool: inMemory(b)})
		hosts, members = append(hosts, h), append(members, h.joins(fmt.Sprint("host", i)))
	}
	var mu sync.Mutex // guards turns
	var turns []time.Duration
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var wg sync.WaitGroup
	for i := range 4 {
		c, h := newTalk(fmt.Sprint("stays", i), 600), hosts[i%2]
		h.turn(c)
		wg.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				c.says("> ")
				r, err := h.begin(context.Background(), c, benchAnswer)
				if err != nil {
					b.Error(err)
					return
				}
				r.end()
				mu.Lock()
				turns = append(turns, time.Since(began))
				mu.Unlock()
				time.Sleep(500 * time.Millisecond) // it reads the answer
			}
		})
	}
	c := newTalk("moves", benchTokens)
	for i := range benchHops {
		h, held := hosts[i%2], c.held
		var fetch []*kvshare.Fetch
		if i > 0 && mode != kvshare.Off {
			fetch = append(fetch, c.of(members[(i+1)%2]))
		}
		c.says("> ")
		began := time.Now()
		r, err := h.begin(context.Background(), c, benchAnswer, fetch...)
		if err != nil {
			b.Fatal(err)
		}
		r.first()
		if i > 0 {
			out.move += time.Since(began) / (benchHops - 1)
		}
		r.end()
		if i > 0 && c.warm(held) {
			out.warm++
		}
		time.Sleep(2 * time.Second)
	}
	end()
	wg.Wait()
	slices.Sort(turns)
	out.stay = turns[len(turns)*95/100]
	return out
}

// first reads the answer up to its first token.
func (r *running) first() {
	for !bytes.Contains(r.body.Bytes(), []byte(`"tokens_predicted":1,`)) && r.body.Scan() {
	}
}

// inMemory is a folder of a memory-backed file system where there is one.
func inMemory(b *testing.B) string {
	dir, err := os.MkdirTemp("/dev/shm", "viiwork-bench-")
	if err != nil {
		return b.TempDir()
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

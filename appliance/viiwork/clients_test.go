package main_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// load is clients that ask until they are told to end.
type load struct {
	url     string
	pause   time.Duration                                                     // between two questions
	lasts   time.Duration                                                     // of a stream; 0 = 2 s
	dial    func(ctx context.Context, network, addr string) (net.Conn, error) // nil = as usual
	stop    chan struct{}
	clients sync.WaitGroup

	mu      sync.Mutex // guards what follows
	asked   int
	streams int
	slowest time.Duration // of those without a stream
	failed  []failure
}

// failure is a request that came to nothing.
type failure struct {
	began, ended time.Time
	why          string
}

// begin starts so many clients that use a new connection for each question, and so many that listen to streams.
func (l *load) begin(hammering, listening int) {
	l.stop = make(chan struct{})
	for range hammering {
		l.client(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"x"}]}`, false)
	}
	for range listening {
		l.client(fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`, int(20*l.length().Seconds())), true)
	}
}

func (l *load) length() time.Duration { return cmp.Or(l.lasts, 2*time.Second) }

func (l *load) client(body string, stream bool) {
	l.clients.Go(func() {
		client := http.Client{Timeout: 3 * time.Minute, Transport: &http.Transport{DisableKeepAlives: !stream, DialContext: l.dial}} // those that stream keep their connection
		defer client.CloseIdleConnections()
		for {
			select {
			case <-l.stop:
				return
			default:
			}
			began := time.Now()
			err := askOnce(&client, l.url, body, stream)
			l.note(stream, began, err)
			if err != nil {
				time.Sleep(200 * time.Millisecond) // as a client does that is refused
			} else {
				time.Sleep(l.pause)
			}
		}
	})
}

func (l *load) note(stream bool, began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stream {
		l.streams++
	} else {
		l.asked++
		l.slowest = max(l.slowest, time.Since(began))
	}
	if err != nil {
		l.failed = append(l.failed, failure{began, time.Now(), err.Error()})
	}
}

// sofar is how much has come to an end.
func (l *load) sofar() (asked, streams int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.streams
}

// askOnce fails unless the answer came whole.
func askOnce(client *http.Client, url, body string, stream bool) error {
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s, then %w", resp.Status, err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %.300s", resp.Status, text)
	case stream && !bytes.HasSuffix(bytes.TrimSpace(text), []byte("[DONE]")), !stream && !json.Valid(text):
		return fmt.Errorf("an answer that is not whole: …%s", text[max(0, len(text)-300):])
	}
	return nil
}

// end ends the clients after their last answer.
func (l *load) end() {
	close(l.stop)
	l.clients.Wait()
}

// tell prints what was asked, and holds each failure against the test.
func (l *load) tell(t *testing.T) {
	t.Helper()
	t.Logf("%d requests, %d streams of %s, %d failed; the slowest request took %.2f s", l.asked, l.streams, l.length(), len(l.failed), l.slowest.Seconds())
	for _, f := range l.failed[:min(len(l.failed), 10)] {
		t.Errorf("%s to %s: %s", f.began.Format("15:04:05.000"), f.ended.Format("15:04:05.000"), f.why)
	}
}

package enginetest

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// keptLimit bounds how many bytes of one resumable stream are kept, keptStreams how many streams.
const (
	keptLimit   = 4 << 20
	keptStreams = 64
)

// keptStream is a stream opened with X-Conversation-Id: it goes on when its client leaves, can be read again, and ends
// early only by DELETE /v1/stream.
type keptStream struct {
	id      string
	started time.Time

	mu      sync.Mutex
	data    []byte
	size    int
	done    bool
	ended   time.Time
	stopped bool
	grew    chan struct{} // closed at the next change
}

func (k *keptStream) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
	close(k.grew)
	k.grew = make(chan struct{})
}

func (k *keptStream) add(b []byte) {
	k.change(func() {
		k.size += len(b)
		if len(k.data)+len(b) <= keptLimit {
			k.data = append(k.data, b...)
		}
	})
}

func (k *keptStream) end() { k.change(func() { k.done, k.ended = true, time.Now() }) }

func (k *keptStream) stop() { k.change(func() { k.stopped = true }) }

func (k *keptStream) isStopped() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stopped
}

// from returns what there is beyond an offset, whether that is all, and what to wait for otherwise.
func (k *keptStream) from(offset int) ([]byte, bool, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.data[min(offset, len(k.data)):], k.done, k.grew
}

// streamStore holds the kept streams by conversation id, the newest of each.
type streamStore struct {
	mu   sync.Mutex
	list []*keptStream
}

// open starts a kept stream, nil when id is "".
func (st *streamStore) open(id string) *keptStream {
	if id == "" {
		return nil
	}
	st.remove(id)
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.list) >= keptStreams {
		st.list = st.list[1:]
	}
	k := &keptStream{id: id, started: time.Now(), grew: make(chan struct{})}
	st.list = append(st.list, k)
	return k
}

func (st *streamStore) find(id string) *keptStream {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, k := range st.list {
		if k.id == id {
			return k
		}
	}
	return nil
}

// remove stops and forgets the stream of a conversation.
func (st *streamStore) remove(id string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, k := range st.list {
		if k.id == id {
			k.stop()
			st.list = append(st.list[:i:i], st.list[i+1:]...)
			return
		}
	}
}

func (s *Server) lookupStreams(w http.ResponseWriter, r *http.Request) {
	body, err := decodeBody(bodyOf(r))
	if err != nil {
		sendError(w, asAPIError(err))
		return
	}
	found := []object{}
	ids, _ := body.m["conversation_ids"].([]any)
	for _, v := range ids {
		id, _ := v.(string)
		k := s.streams.find(id)
		if k == nil {
			continue
		}
		k.mu.Lock()
		found = append(found, object{"conversation_id": id, "is_done": k.done, "total_bytes": k.size,
			"started_at": k.started.Unix(), "completed_at": max(k.ended.Unix(), 0)})
		k.mu.Unlock()
	}
	send(w, http.StatusOK, found)
}

func (s *Server) resumeStream(w http.ResponseWriter, r *http.Request) {
	k := s.streams.find(r.URL.Query().Get("conv_id"))
	if k == nil {
		sendError(w, apiError{Code: 404, Type: "not_found_error", Message: "File Not Found"})
		return
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("from"))
	offset = max(offset, 0)
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		data, done, grew := k.from(offset)
		w.Write(data)
		offset += len(data)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		if done {
			return
		}
		select {
		case <-grew:
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Server) deleteStream(w http.ResponseWriter, r *http.Request) {
	s.streams.remove(r.URL.Query().Get("conv_id"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNoContent)
}

package modelcopy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"viiwork/appliance/mesh"
)

const (
	// stallFor is how long a member may send nothing before it is taken for gone. It may rest, or read a slow disk.
	stallFor = 20 * time.Second
	// listFor is how long it may take to look at its files.
	listFor = time.Minute
	// firstLook is the first pause before a SHA-256 is asked for again that is not known yet; the later ones are longer.
	firstLook = 20 * time.Millisecond
	// waitFull is the pause before a member is asked again that gives as many models away as it may.
	waitFull = 2 * time.Second
	// maxTries is how often in a row a question may fail; the pauses between double up to maxPause.
	maxTries = 6
	maxPause = 8 * time.Second
)

var errStalled = errors.New("it stopped sending")

// passes tells whether the member may answer otherwise soon.
func passes(n *mesh.No) bool {
	return n.Status >= http.StatusInternalServerError || n.Code == mesh.CodeNoMember
}

// source asks one member about one model.
type source struct {
	client  *mesh.Client
	from    mesh.Member
	model   string
	most    int64  // bytes of a piece
	waiting func() // told when the member makes this one wait
}

// list asks once: nothing has been begun yet that would have to go on.
func (s source) list(ctx context.Context) (listed, error) {
	text, err := s.once(ctx, ListPath, nil, maxList)
	if err != nil {
		return listed{}, err
	}
	return readList(text)
}

// piece brings what of the n-th file begins at from.
func (s source) piece(ctx context.Context, n int, f file, from int64) ([]byte, error) {
	want := min(s.most, f.Size-from)
	q := url.Values{"file": {strconv.Itoa(n)}, "tag": {f.Tag}, "from": {strconv.FormatInt(from, 10)}, "size": {strconv.FormatInt(want, 10)}}
	b, err := s.signed(ctx, PiecePath, q, want)
	if err == nil && int64(len(b)) != want {
		return nil, fmt.Errorf("%d bytes of %s came in place of %d", len(b), f.Name, want)
	}
	return b, err
}

// sum waits until the member knows the SHA-256 of the n-th file.
func (s source) sum(ctx context.Context, n int, f file) (string, error) {
	q := url.Values{"file": {strconv.Itoa(n)}, "tag": {f.Tag}}
	for pause := firstLook; ; pause = min(2*pause, time.Second) {
		text, err := s.signed(ctx, SumPath, q, 1<<10)
		if err != nil {
			return "", err
		}
		var got summed
		if json.Unmarshal(text, &got) != nil || got.SHA256 != "" && !sumText.MatchString(got.SHA256) {
			return "", errors.New("it tells no SHA-256")
		}
		if got.SHA256 != "" {
			return got.SHA256, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return "", err
		}
	}
}

// signed asks until there is an answer, for as long as what stands in the way may pass.
func (s source) signed(ctx context.Context, path string, q url.Values, most int64) ([]byte, error) {
	pause := time.Second
	for try := 1; ; {
		b, err := s.once(ctx, path, q, most)
		var no *mesh.No
		switch {
		case err == nil:
			return b, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, mesh.ErrForgedAnswer):
			return nil, err
		case errors.Is(err, mesh.ErrBusy):
			s.waiting()
			if err := sleep(ctx, waitFull); err != nil {
				return nil, err
			}
			continue
		case errors.As(err, &no) && !passes(no), try == maxTries:
			return nil, err
		}
		try++
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, maxPause)
	}
}

func (s source) once(ctx context.Context, path string, q url.Values, most int64) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := stallFor
	if path == ListPath {
		patience = listFor
	}
	watchdog := time.AfterFunc(patience, func() { cancel(errStalled) })
	defer watchdog.Stop()
	query := url.Values{"model": {s.model}}
	for k, v := range q {
		query[k] = v
	}
	resp, err := s.client.Get(ctx, s.from, path, query)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	resp.Body = &watched{resp.Body, watchdog}
	b, err := s.client.ReadGiven(resp, most)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, cause
	}
	var no *mesh.No
	if errors.As(err, &no) && no.Status == http.StatusNotFound && no.Code != codeNoModel {
		no.Message = "its viiwork does not give models away yet: update it"
	}
	return b, err
}

// watched puts the watchdog off as long as bytes come.
type watched struct {
	io.ReadCloser
	watchdog *time.Timer
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if n > 0 {
		w.watchdog.Reset(stallFor)
	}
	return n, err
}

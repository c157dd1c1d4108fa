package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"viiwork/appliance/kvshare/replica"
)

// What a member can do wrong.
var (
	errStalled = errors.New("the member stopped sending")
	errMore    = errors.New("the member sent more than it was asked for")
)

// incoming is one answer of chunks. One goroutine reads the network while another checks what came and puts it.
type incoming struct {
	f        *fetching
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watchdog *time.Timer
	body     io.Reader
	held     time.Duration // by the limit; the reader's until it has ended

	done  int // chunks that were put
	bytes int64
}

// piece is what the reader hands on: a chunk, or why there is none.
type piece struct {
	i   int
	b   []byte
	err error
}

// all takes the chunks in their order, up to the first that is not right.
func (in *incoming) all(lacks []int) (err error) {
	pieces := make(chan piece, spares)
	go func() {
		defer close(pieces)
		in.read(lacks, pieces)
	}()
	for p := range pieces {
		if err == nil {
			if err = in.take(p); err != nil {
				in.cancel(err) // the reader may wait for the network
			}
		}
		if p.b != nil {
			in.f.spare <- p.b[:0]
		}
	}
	return err
}

func (in *incoming) take(p piece) error {
	if p.err != nil {
		return p.err
	}
	if p.b == nil {
		return ErrGone
	}
	if sha256.Sum256(p.b) != in.f.m.Chunks[p.i].Sum {
		return ErrWrong
	}
	if err := in.f.put(p.i, p.b); err != nil {
		return fmt.Errorf("%w: %w", errOurs, err)
	}
	in.done++
	in.bytes += int64(len(p.b))
	return nil
}

// read hands on what the network brings. While it waits for anything else the watchdog sleeps.
func (in *incoming) read(lacks []int, pieces chan<- piece) {
	for _, i := range lacks {
		in.watchdog.Stop()
		waits := time.Now()
		if err := in.f.client.limit.wait(in.ctx, int(in.f.m.Chunks[i].Size)); err != nil {
			pieces <- piece{err: err}
			return
		}
		in.held += time.Since(waits)
		var buf []byte
		select {
		case buf = <-in.f.spare:
		case <-in.ctx.Done():
			pieces <- piece{err: context.Cause(in.ctx)}
			return
		}
		in.watchdog.Reset(stallFor)
		b, err := in.chunk(buf, in.f.m.Chunks[i])
		if b == nil {
			in.f.spare <- buf
		}
		if err != nil {
			pieces <- piece{err: in.because(err)}
			return
		}
		pieces <- piece{i: i, b: b}
	}
	var more [1]byte
	if _, err := io.ReadFull(in.body, more[:]); err == nil {
		pieces <- piece{err: errMore}
	} else if err != io.EOF {
		pieces <- piece{err: in.because(err)}
	}
}

// chunk reads one, nil if it is not there any more. A buffer that is too small is replaced.
func (in *incoming) chunk(buf []byte, want replica.Chunk) ([]byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(in.body, head[:]); err != nil {
		return nil, err
	}
	switch size := binary.BigEndian.Uint32(head[:]); size {
	case 0:
		return nil, nil
	case want.Size:
	default:
		return nil, ErrWrong
	}
	if cap(buf) < int(want.Size) {
		buf = make([]byte, want.Size)
	}
	buf = buf[:want.Size]
	if _, err := io.ReadFull(in.body, buf); err != nil {
		return nil, err
	}
	return buf, nil
}

// because prefers the reason for which the answer was ended to the transport's word that it was.
func (in *incoming) because(err error) error {
	if cause := context.Cause(in.ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errStalled
	}
	return err
}

package tsnode_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"viiwork/tsnode"
)

// TestADeviceThatHangsIsGivenUp, and one that only was silent for a minute is not.
func TestADeviceThatHangsIsGivenUp(t *testing.T) {
	for name, answers := range map[string]bool{"hangs": false, "was silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				began := time.Now()
				err := tsnode.Follow(ctx, func(r *http.Request) (*http.Response, error) {
					if silent := time.Since(began)%(2*time.Minute) < time.Minute; answers && !silent && strings.HasSuffix(r.URL.Path, "/status") {
						return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"BackendState":"Starting"}`))}, nil
					}
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
				took := time.Since(began)
				if hung := errors.Is(err, tsnode.ErrHangs); hung == answers || hung && took > 2*time.Minute {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

// TestADialByADeviceThatHangsEnds with its time, also if none of its tries does.
func TestADialByADeviceThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		never := make(chan struct{})
		_, err := tsnode.DialAgain(ctx, func(context.Context) (net.Conn, error) { <-never; return nil, net.ErrClosed })
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 10*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		close(never)
	})
}

//go:build linux

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"viiwork/appliance"
	"viiwork/appliance/config"
	"viiwork/engine/enginetest"
)

// tokenTime is what a token takes an engine.
const tokenTime = 25 * time.Millisecond

// book is what an engine tells of its work.
type book struct {
	Stats enginetest.Stats
	Runs  []run
}

// run is one request with a mark, as one engine had it.
type run struct {
	Mark  string
	Begun time.Time
	Fate  enginetest.Fate // "" = under way
}

// marks are how requests are told apart.
var marks = regexp.MustCompile(`mark:([a-z0-9-]+);`)

// playEngine is an engine on a free port of loopback, which it prints, with its book at an address of its own.
func playEngine(ctx context.Context, slots, at string) error {
	n, err := strconv.Atoi(slots)
	if err != nil {
		return err
	}
	engine := enginetest.New(enginetest.Options{
		Slots: n, Model: "m", Context: 1 << 16, ReplyTokens: 1 << 20, DecodeTPS: float64(time.Second / tokenTime),
		KeepBodies: true, KeepRequests: 1 << 16,
	})
	defer engine.Close()
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	books := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := book{Stats: engine.Stats()}
		for _, seen := range engine.Requests() {
			if m := marks.FindSubmatch(seen.Body); m != nil && strings.HasPrefix(string(m[1]), r.URL.Query().Get("mark")) {
				b.Runs = append(b.Runs, run{string(m[1]), seen.Time, seen.Fate})
			}
		}
		_ = json.NewEncoder(w).Encode(b)
	})}
	context.AfterFunc(ctx, func() { books.Close() })
	fmt.Println(engine.URL())
	_ = books.Serve(l)
	return nil
}

// playNode is a whole node, whose clock is off by what stands in a file.
func playNode(ctx context.Context, path, clock string) error {
	cfg, err := config.Load(path, os.Environ())
	if err != nil {
		return err
	}
	node, err := appliance.New(cfg, appliance.Options{
		Version: "test",
		Log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel()})),
		Ready:   func(addrs ...string) { fmt.Println(addrs[0]) },
		Now:     func() time.Time { return time.Now().Add(readOffset(clock)) },
	})
	if err != nil {
		return err
	}
	return node.Run(ctx)
}

// logLevel is error, and info where the nodes' logs are kept.
func logLevel() slog.Level {
	if os.Getenv(logsEnv) != "" {
		return slog.LevelInfo
	}
	return slog.LevelError
}

// readOffset is 0 without the file.
func readOffset(clock string) time.Duration {
	data, err := os.ReadFile(clock)
	if err != nil {
		return 0
	}
	d, err := time.ParseDuration(string(data))
	if err != nil {
		panic(err)
	}
	return d
}

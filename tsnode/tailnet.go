package tsnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscale.com/client/local"
	"tailscale.com/envknob"
	"tailscale.com/ipn"
	"tailscale.com/ipn/ipnstate"
	"tailscale.com/tsnet"
)

const (
	// lookEvery is how often the device's state is read when nothing tells of a change; some changes are not told,
	// among them the loss of the control server.
	lookEvery = 5 * time.Second
	// settle gathers a burst of changes into one look.
	settle = 50 * time.Millisecond
	// relogin is how often a device without a login asks for one again. An expiry that was extended in the admin
	// console is noticed by some versions only when asked.
	relogin = time.Minute
	// closePatience bounds the end of a device. It resets every TCP connection it has, also those that were closed within the
	// last minute, into a queue of 512 that nobody empties any more: with more of them it never ends. What is left ends with
	// the process.
	closePatience = 2 * time.Second
	// lookPatience bounds one look at the device's state. One that has not answered for hangAfter does not come back: while it
	// forgets a peer that has started anew, the library waits for that peer's packets to be received, what receives them for room
	// in a queue of 512, and what empties that for the forgetting to end.
	lookPatience = 15 * time.Second
	hangAfter    = 90 * time.Second
)

// tailnet is this node as a device of its own.
type tailnet struct {
	cfg     Config
	dir     string
	publish func(*view)
	current func() *view // what was published last

	device atomic.Pointer[device] // nil while there is none
}

// device is a started tsnet server.
type device struct {
	server *tsnet.Server
	client *local.Client
	dials  *dials
}

// failure is what the control server, or the start of the device, said when it refused.
type failure struct{ text string }

// run starts the device, and starts it anew after a growing pause while it was never up: a key refused may be replaced
// meanwhile. Once it was up it is kept whatever happens, since listeners hang on it.
func (t *tailnet) run(ctx context.Context) error {
	w := newWatch(t.cfg, t.publish)
	for pause := 5 * time.Second; ; pause = min(2*pause, 2*time.Minute) {
		err := t.session(ctx, w)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrHangs) {
			return err
		}
		w.fail(failure{t.scrub(err.Error())})
		t.cfg.Log.Warn("the device cannot join the tailnet", "error", t.scrub(err.Error()), "again_in", pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// session is one life of the device. It returns when ctx ends, when the device cannot come up or when it hangs.
func (t *tailnet) session(ctx context.Context, w *watch) error {
	prepareProcess(ctx, t.cfg, t.dir)
	key, err := t.cfg.authKey()
	if err != nil {
		return err
	}
	server := &tsnet.Server{
		Dir:           t.dir,
		Hostname:      t.cfg.Hostname,
		AuthKey:       key,
		ControlURL:    t.cfg.ControlURL,
		Port:          lastPort(t.dir),
		AdvertiseTags: t.cfg.Tags,
		UserLogf:      func(format string, args ...any) { t.cfg.Log.Debug(t.scrub(fmt.Sprintf(format, args...))) },
	}
	if err := server.Start(); err != nil {
		return err // and no Close: it panics on a server that did not start
	}
	dials := newDials()
	defer closeDevice(server, dials)
	keepPort(t.dir, server)
	client, err := server.LocalClient()
	if err != nil {
		return err
	}
	t.device.Store(&device{server, client, dials})
	defer t.device.Store(nil)
	return t.follow(ctx, client, w)
}

// closeDevice ends the device and what dials through it.
func closeDevice(server *tsnet.Server, dials *dials) {
	dials.end()
	closed := make(chan struct{})
	go func() { defer close(closed); server.Close(); dials.wait() }()
	select {
	case <-closed:
	case <-time.After(closePatience):
	}
}

// follow reads the device's state at every change of it, until ctx ends, the device is refused before it was up, or hangs.
func (t *tailnet) follow(ctx context.Context, client *local.Client, w *watch) error {
	ctx, cancel := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer cancel()
	changed := make(chan struct{}, 1)
	refused := make(chan string, 1)
	listener.Go(func() { listenToBus(ctx, client, changed, refused) })

	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	asked, answered := time.Now(), time.Now()
	for {
		if s, err := look(ctx, client); err == nil {
			answered = time.Now()
			w.see(s, answered)
		} else if time.Since(answered) > hangAfter && ctx.Err() == nil {
			return ErrHangs
		}
		if w.waiting && time.Since(asked) > relogin {
			asked = time.Now()
			askForLogin(ctx, client) // its outcome shows in the next state
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case text := <-refused:
			if !w.wasUp {
				return errors.New(text)
			}
			w.fail(failure{t.scrub(text)})
		case <-tick.C:
		case <-changed:
			sleep(ctx, settle)
		}
	}
}

// look asks the device for its state.
func look(ctx context.Context, client *local.Client) (*ipnstate.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	return client.Status(ctx)
}

func askForLogin(ctx context.Context, client *local.Client) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	_ = client.StartLoginInteractive(ctx)
}

// listenToBus passes on that something has changed, and what the control server said in refusal. It comes back to the
// bus when that drops a listener that was slow.
func listenToBus(ctx context.Context, client *local.Client, changed chan<- struct{}, refused chan<- string) {
	for ctx.Err() == nil {
		watcher, err := client.WatchIPNBus(ctx, ipn.NotifyInitialState|ipn.NotifyPeerPatches)
		if err != nil {
			sleep(ctx, time.Second)
			continue
		}
		for {
			n, err := watcher.Next()
			if err != nil {
				break
			}
			if n.ErrMessage != nil {
				offer(refused, *n.ErrMessage)
			}
			offer(changed, struct{}{})
		}
		watcher.Close()
	}
}

func offer[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}

// sleep returns after d, or when ctx has ended.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// scrub takes the auth key out of what the control server or the library says, and bounds it: it ends up in logs and in
// the status.
func (t *tailnet) scrub(text string) string {
	if key, err := t.cfg.authKey(); err == nil && key != "" {
		text = strings.ReplaceAll(text, key, "(the auth key)")
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// status asks the device now. The returned error is ErrNotUp when there is none.
func (t *tailnet) status(ctx context.Context) (*device, *ipnstate.Status, error) {
	d := t.device.Load()
	if d == nil {
		return nil, nil, ErrNotUp
	}
	s, err := d.client.Status(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the device's state: %w", err)
	}
	if s.BackendState != ipn.Running.String() {
		return nil, nil, ErrNotUp
	}
	return d, s, nil
}

// prepareProcess sets what the library reads from the environment of the whole process. Its logs stay here: without this
// they are uploaded to log.tailscale.com. Nor does it make a folder beside ours, in /var/lib or the user's home, that
// nobody would ever remove.
func prepareProcess(ctx context.Context, cfg Config, dir string) {
	if !envknob.NoLogsNoSupport() {
		envknob.SetNoLogsNoSupport()
	}
	if cfg.Getenv("TS_LOGS_DIR") == "" {
		envknob.Setenv("TS_LOGS_DIR", dir)
	}
	const knob = "TS_DEBUG_USE_DERP_HTTP"
	if cfg.Getenv(knob) == "" && relayIsPlain(ctx, cfg.ControlURL) {
		envknob.Setenv(knob, "true")
	}
}

package appliance

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/gateway"
	"viiwork/appliance/mesh"
)

// open has the servers answer: the socket at once, and listeners that what started this process kept open once this run
// answers what the run before answered. The channel is closed when all of them do.
func (a *Appliance) open(parts context.Context, running *sync.WaitGroup, servers []*server, end func(error)) <-chan struct{} {
	open := make(chan struct{})
	running.Go(func() {
		defer close(open)
		if len(a.options.Given) > 0 {
			a.takeOver(parts)
		}
	})
	for _, s := range servers {
		running.Go(func() {
			if s.socket == "" {
				<-open
			}
			end(s.serve())
		})
	}
	return open
}

// cues are what a run listens for until it is to end.
type cues struct {
	open    <-chan struct{} // closed when all servers answer
	ended   <-chan error    // a part has ended by itself
	servers []*server
}

// untilTold returns when the run is to end: after how long at the latest, and whether it was wished over the socket; or
// the error of a part that has ended by itself.
func (a *Appliance) untilTold(ctx context.Context, t cues) (limit time.Duration, wished bool, err error) {
	for {
		select {
		case <-t.open:
			t.open = nil
			a.passage.arrived(a.options.Version, a.log)
			addrs := addresses(t.servers)
			if a.options.Ready != nil {
				a.options.Ready(addrs...)
			}
			a.log.Info("node is up", "node", a.current().Node.Name, "version", a.options.Version, "listening", addrs)
		case <-ctx.Done():
			return a.current().Node.Drain, false, nil
		case limit := <-a.passage.wish:
			a.log.Info("ending, so that what started this node starts it anew", "within", limit)
			a.engine.StopEngines(false)
			return limit, true, nil
		case err := <-t.ended:
			return 0, false, err
		}
	}
}

// goodbye leaves the mesh. A node that is back in a moment tells nobody: a goodbye takes a second or two to spread, and
// its clients wait meanwhile.
func (a *Appliance) goodbye(wished bool, left <-chan struct{}) {
	if f := a.mesh.current(); wished && f != nil {
		f.cluster.Stop()
		return
	}
	a.mesh.sayGoodbye(left, a.abort)
}

// farewell is how a run ends that was told to.
type farewell struct {
	limit   time.Duration // for what runs to finish
	servers []*server
	goodbye func()
}

// lastPart is how long before the end of the drain a node that is still used takes no more: time for its goodbye, and
// for what came in during that.
const lastPart = 8 * time.Second

// finish lets what runs finish for the limit at most, then ends it. An abort ends the wait at once. Until its goodbye is
// said this node still passes on what comes in by it.
//
// Where what started this process keeps the listeners for the next run, nothing is refused: this run goes on answering
// until all is done that ran when it was told to end. What comes then waits in the kernel, for no longer than a request
// takes and a start.
//
// ctx is Run's: when it ends, node.drain is left.
func (a *Appliance) finish(ctx context.Context, f farewell) {
	began := time.Now()
	a.ending.Store(true)
	a.passage.leave(f.limit)
	wait, cancel := context.WithTimeout(context.Background(), f.limit)
	defer cancel()
	if hurry := a.current().Node.Drain; hurry < f.limit {
		defer context.AfterFunc(ctx, func() { time.AfterFunc(hurry, cancel) })()
	}
	requests := a.gateway.Inflight()
	if requests > 0 {
		a.log.Info("draining", "requests", requests, "for_at_most", f.limit)
	}
	used, enough := context.WithTimeout(wait, f.limit-min(f.limit/2, lastPart))
	defer enough()
	if slices.ContainsFunc(f.servers, func(s *server) bool { return s.kept }) {
		lastAnswers(f.servers)
		a.retire()
		a.within(used, func() bool { return a.gateway.Older(began) == 0 })
		a.caches.leaveLate(used)
	} else {
		a.Drain(true)
		a.idleWithin(used)
	}
	members := a.heard() // gossip that has ended knows of none
	f.goodbye()
	w := word{Version: a.options.Version, Models: a.answers(), Members: members, Requests: requests, Closed: time.Now()}
	shut(f.servers)
	a.parting.Store(true)
	if !a.calmWithin(wait, f.servers) {
		a.endRequests()
	}
	w.Ended = time.Now()
	a.passage.tell(w, a.log)
	a.log.Info("nothing runs here any more", "drain_s", w.Ended.Sub(began).Seconds())
}

// retire tells the other nodes to come here no more. Seats are still granted to what comes in by this node, unless others
// have all its models: then it goes to them.
func (a *Appliance) retire() {
	if a.relieved() {
		a.Drain(true)
		return
	}
	if !a.draining.Swap(true) {
		a.log.Info("drain", "on", true)
	}
	a.mesh.tell()
}

var errParting = &gateway.Error{Status: http.StatusServiceUnavailable, Code: "node_stopped", RetryAfter: 5 * time.Second,
	Message: "this node ends or starts anew and takes no new requests; try again shortly or use another node"}

// untilParting refuses clients of the tailnet once this run takes no more. Nobody keeps the device's listener for the next
// run, and members need it to the last: so it stays open, and who goes on asking there would keep this run from its end.
func (a *Appliance) untilParting(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if _, tailnet := r.Context().Value(callerKey{}).(string); tailnet && a.parting.Load() && !mesh.FromMember(r) {
			return errParting
		}
		return next(c)
	}
}

// counted is how long a request that has come may take to be counted.
const counted = 50 * time.Millisecond

// calmWithin waits until no request is in flight and none can come any more; false when ctx or an abort came first.
func (a *Appliance) calmWithin(ctx context.Context, servers []*server) bool {
	calm := func() bool { return a.gateway.Inflight() == 0 && !stillUsed(servers) }
	for a.within(ctx, calm) {
		if time.Sleep(counted); calm() {
			return true
		}
	}
	return false
}

// idleWithin waits until no request is in flight; false when ctx or an abort came first.
func (a *Appliance) idleWithin(ctx context.Context) bool {
	return a.within(ctx, func() bool { return a.gateway.Inflight() == 0 })
}

// within looks until it is so; false when ctx or an abort came first.
func (a *Appliance) within(ctx context.Context, so func() bool) bool { return within(ctx, a.abort, so) }

func within(ctx context.Context, abort <-chan struct{}, so func() bool) bool {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !so() {
		select {
		case <-look.C:
		case <-abort:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

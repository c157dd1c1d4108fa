package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"viiwork/appliance/config"
	"viiwork/appliance/gateway"
	"viiwork/appliance/history"
	"viiwork/appliance/modelcopy"
	"viiwork/appliance/route"
	"viiwork/appliance/status"
	"viiwork/engine"
	"viiwork/engine/docker"
	"viiwork/engine/gguf"
	"viiwork/engine/gpu"
	"viiwork/engine/llama"
	"viiwork/engine/native"
	"viiwork/engine/plan"
	"viiwork/ui/web"
)

// Options is what a node is started with beside its configuration.
type Options struct {
	Version     string                  // printed in status
	StopEngines bool                    // end the engine processes with the node instead of leaving them to the next run
	Log         *slog.Logger            // never nil
	Ready       func(addrs ...string)   // called once, when all listeners are open; nil = nobody asks
	News        func() []status.Warning // what else status is to tell; nil = nothing
	HostRoot    string                  // holds the machine's /sys, /proc and programs; "" = /
	Installer   Installer               // replaces this machine's program; nil = nobody does
	Lookout     time.Duration           // how often it is looked whether a roll-out is to begin by itself, 0 = a minute; one under way is hurried, too
	Hangs       func(error)             // called once the tailnet's device hangs and cannot be ended: the process should end at once; nil = it goes on without
	Now         func() time.Time        // the clock by which requests to members are signed and theirs checked; nil = time.Now

	Given     map[string]net.Listener   // listeners that what started this process had open, by the address as the configuration writes it
	Keep      func(l net.Listener) bool // has what started this process hold a listener open for the next run; nil = it cannot
	Restarted bool                      // what started this process starts it again when it ends
}

// Appliance is one node. Its parts stand in boot order.
type Appliance struct {
	options Options
	log     *slog.Logger
	started time.Time

	spool       *spool
	host        gpu.Host
	calibration *calibration

	docker   *docker.Runner
	live     *gpu.Live
	engine   *engine.Engine
	mesh     *membership
	digests  *digests
	caches   *caches
	copier   *modelcopy.Copier
	rollouts *rollouts
	tallies  *tallies
	traces   *traces
	gateway  *gateway.Gateway
	token    string // of this run's pages
	views    *views
	past     *history.Store // nil = there is none
	site     *web.Site
	handler  http.Handler

	passage    *passage
	draining   atomic.Bool
	ending     atomic.Bool  // the drain of the end: it is not taken back
	parting    atomic.Bool  // this run takes no more, and waits for what it has
	logReaders atomic.Int32 // pages that follow logs
	abort      chan struct{}
	abortOne   sync.Once

	mu       sync.Mutex // guards what a reload replaces
	cfg      *config.Config
	cards    []gpu.Card
	warnings []status.Warning
	memory   plan.Plan
	images   []string // what each model's engines are to be started from
	turns    turns    // of models that change to another image
}

// New makes a node from cfg. It opens nothing but the configuration's own model files, to name broken ones; a model
// whose file is missing or broken does not keep the others from being served.
func New(cfg *config.Config, o Options) (*Appliance, error) {
	a := &Appliance{options: o, log: o.Log, cfg: cfg, started: time.Now(), abort: make(chan struct{}), host: hostAt(o.HostRoot), passage: openPassage(cfg.Node.StateDir)}
	a.docker = docker.New(docker.Config{Node: cfg.Node.Name, StateDir: cfg.Node.StateDir, UID: os.Getuid(), GID: os.Getgid(), Log: o.Log})
	p, err := a.plan(cfg, nil)
	if err != nil {
		return nil, err
	}
	a.cards, a.warnings, a.images, a.memory = p.cards, p.warnings, imagesOf(p.models), p.memory
	a.spool = pickSpool(spoolPlace(cfg.Node.StateDir, cfg.KVShare.Mode == "off"))
	a.live = gpu.NewLive(gpu.LiveConfig{Read: a.readCards, Log: o.Log})
	a.live.Watch(p.cards)
	a.calibration = openCalibration(cfg.Node.StateDir)
	if a.engine, err = engine.New(a.engineConfig()); err != nil {
		return nil, err
	}
	a.engine.StopEngines(o.StopEngines)
	a.engine.Apply(a.turns.want(p.models, nil))
	if a.mesh, err = newMembership(cfg, o); err != nil {
		return nil, err
	}
	a.digests = newDigests(a.engine.Snapshot, a.mesh.tell)
	a.tallies = newTallies(cfg.Node.Name, a.someoneServes)
	a.traces = newTraces(cfg.Telemetry.OTLP, cfg.Node.Name, o.Version, o.Log)
	a.caches = newCaches(a)
	a.copier = a.newCopier()
	a.rollouts = newRollouts(a)
	a.makePages()
	a.gateway = gateway.New(a.gatewayConfig())
	a.handler = a.routes()
	a.mesh.report, a.mesh.serve, a.mesh.lend = a.report, a.serveTailnet, a.gateway.DeskConfig
	a.mesh.give, a.mesh.shelf, a.mesh.copies = a.giver, a.shelf, a.imageCopies
	a.mesh.attach = func(f *fellows) {
		a.caches.join(f)
		a.gateway.Join(gateway.Mesh{ID: f.id, Table: a.mesh.table, Client: f.client, Verifier: f.verifier, Desk: f.desk, HostName: a.mesh.hostName})
	}
	return a, nil
}

// engineConfig is what the engine is made of, once the host, the spool and Docker are there.
func (a *Appliance) engineConfig() engine.Config {
	cfg, o := a.cfg, a.options
	return engine.Config{
		Node:     cfg.Node.Name,
		StateDir: cfg.Node.StateDir,
		Spool:    a.spool.dir,
		Runners: map[engine.RunnerKind]engine.Runner{
			engine.RunnerDocker: a.docker,
			engine.RunnerNative: native.New(native.Config{Node: cfg.Node.Name, StateDir: cfg.Node.StateDir, Log: o.Log}),
		},
		Dialect:      llama.New(nil),
		Health:       engine.HealthConfig{Interval: cfg.Health.Interval, Stall: cfg.Health.Stall, MaxRespawns: cfg.Health.MaxRespawns},
		QueueMax:     queueMax(cfg),
		Placed:       a.placed,
		Room:         a.room,
		BeforeSwitch: a.beforeSwitch,
		CheckFile:    checkFile,
		Changed:      a.slotsChanged,
		Log:          o.Log,
	}
}

// gatewayConfig is what the gateway is made of, once all other parts are there.
func (a *Appliance) gatewayConfig() gateway.Config {
	cfg, o := a.cfg, a.options
	return gateway.Config{
		Node: cfg.Node.Name, Version: o.Version, Engine: a.engine,
		MaxBody: cfg.API.MaxBody, MaxInflight: cfg.API.MaxInflight,
		QueueTimeout: cfg.Routing.QueueTimeout, WarmWait: cfg.Routing.WarmWait,
		Hosts:          cfg.API.Hosts,
		CORS:           gateway.CORSConfig{AllowOrigins: cfg.API.CORS.AllowOrigins, AllowTailnetIPs: cfg.API.CORS.AllowTailnetIPs},
		SessionHeaders: cfg.Routing.SessionHeaders,
		QueueMax:       queueMax(cfg),
		Digest:         a.digests.of,
		Policy:         route.Policy(cfg.Routing.Policy),
		Forget:         !cfg.Routing.Affinity,
		Flat:           !cfg.Routing.Performance,
		Known:          a.mesh.known,
		Caches:         a.caches.share,
		RatesFile:      filepath.Join(cfg.Node.StateDir, "rates.json"),
		Cards:          a.cardsOf,
		News:           a.mesh.tell,
		Aliases:        a.mesh.aliases.Targets,
		SessionKey:     a.mesh.session.Bytes,
		StaleAfter:     cfg.Routing.StaleAfter,
		Ear:            a.tallies.ear(a.requestEnded),
		Trusted:        a.mayCancel,
		Anywhere:       a.requestAnywhere,
		Elsewhere:      a.cancelElsewhere,
		Home:           a.site,
		Caller:         caller,
		Log:            o.Log,
	}
}

// queueMax is routing.queue_max for the parts, in whose configurations 0 is the default.
func queueMax(cfg *config.Config) int {
	if cfg.Routing.QueueMax == 0 {
		return -1
	}
	return cfg.Routing.QueueMax
}

// checkFile names what is wrong with a model file, or with what is asked of it, before an engine is started on it.
func checkFile(m engine.Model) error {
	file, err := gguf.Read(m.Path)
	if err != nil || file.Architecture == "" {
		return err
	}
	return llama.CheckPooling(m, file.Embedding || file.Rerank)
}

// Run serves until ctx ends, then drains and returns nil. Any other end is an error.
func (a *Appliance) Run(ctx context.Context) error {
	limitMemory(a.log)
	keepPrivate()
	defer a.docker.Close()
	defer a.mesh.node.Close()
	cfg := a.current()
	unlock, err := lockState(cfg.Node.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.checkHome(ctx, cfg); err != nil {
		return err
	}
	if err := a.spool.open(); err != nil {
		return err
	}
	defer func() { a.spool.close(a.enginesMayRun()) }()
	a.mesh.aliases.Load()
	a.mesh.session.Load()
	if err := a.caches.open(); err != nil {
		return err
	}
	defer a.caches.close()
	a.openHistory()
	servers, err := a.listen(cfg)
	if err != nil {
		return err
	}
	// The parts outlive ctx: it only tells them to drain.
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1) // the first part that ends, ends the node
	end := func(err error) {
		select {
		case ended <- err:
		default:
		}
	}
	var running sync.WaitGroup
	running.Go(func() { end(wrap("engine", a.engine.Run(parts))) })
	inMesh, leave := context.WithCancel(parts)
	defer leave()
	left := make(chan struct{})
	running.Go(func() { defer close(left); end(wrap("mesh", a.mesh.run(inMesh))) })
	open := a.open(parts, &running, servers, end)
	running.Go(func() { a.digests.run(parts) })
	running.Go(func() { a.runTurns(parts) })
	running.Go(func() { end(wrap("cards", a.live.Run(parts))) })
	running.Go(func() { end(wrap("accounting", a.gateway.Run(parts))) })
	running.Go(func() { end(wrap("caches", a.caches.run(parts))) })
	running.Go(func() { end(wrap("traces", a.traces.run(parts))) })
	a.runPages(parts, &running, end)
	limit, wished, err := a.untilTold(ctx, cues{open: open, ended: ended, servers: servers})
	if err == nil {
		a.finish(ctx, farewell{limit: limit, servers: servers, goodbye: func() { a.goodbye(wished, left) }})
	} else {
		a.mesh.sayGoodbye(left, a.abort)
		a.endRequests()
	}
	closeAll(servers)
	leave()
	<-left
	stop()
	running.Wait()
	if err == nil {
		a.sayDown()
	}
	return err
}

// sayDown tells the owner what is still there: engines hold memory and cards after the node has gone.
func (a *Appliance) sayDown() {
	left := 0
	for _, m := range a.engine.Snapshot() {
		for _, b := range m.Backends {
			if b.Process != "" {
				left++
			}
		}
	}
	if left == 0 || a.options.StopEngines {
		a.log.Info("node is down")
		return
	}
	a.log.Info("node is down, its engines run on for the next start ('serve --stop-engines' ends them with the node)", "engines", left)
}

// enginesMayRun says whether an engine may be left after the end: one that runs on for the next start, also one of the run
// before that this one had no time to adopt, or one that could not be stopped.
func (a *Appliance) enginesMayRun() bool {
	for _, m := range a.engine.Snapshot() {
		for _, b := range m.Backends {
			if m.Model.Runner != engine.RunnerExternal && (b.Process != "" || !a.options.StopEngines) {
				return true
			}
		}
	}
	return false
}

// endRequests ends what still runs; each stream still gets its error event.
func (a *Appliance) endRequests() {
	if n := a.gateway.Inflight(); n > 0 {
		a.log.Warn("ending what still runs", "requests", n)
	}
	a.gateway.CancelAll()
	grace, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	within(grace, nil, func() bool { return a.gateway.Inflight() == 0 }) // an abort has ended the wait before, not this one
}

// Abort ends a drain at once: the second SIGTERM.
func (a *Appliance) Abort() { a.abortOne.Do(func() { close(a.abort) }) }

// Drain stops granting seats (or grants them again); running requests go on.
func (a *Appliance) Drain(on bool) {
	if a.draining.Swap(on) != on {
		a.log.Info("drain", "on", on)
	}
	a.engine.Drain(on)
}

// Reload takes the models and access rules of a new configuration; engines of unchanged models are not touched. Other
// changed sections are named in the answer: they need a restart. On an error nothing has changed.
func (a *Appliance) Reload(cfg *config.Config) (restart []string, err error) {
	p, err := a.plan(cfg, promptCaches(a.current()))
	if err != nil {
		return nil, err
	}
	// One act: of two reloads at a time the later one rules what is told and what is served.
	a.mu.Lock()
	defer a.mu.Unlock()
	changed, restart := config.Changes(a.cfg, cfg)
	changed = changed || !slices.Equal(a.images, imagesOf(p.models)) // one was fetched anew
	next := *a.cfg
	next.Models, next.ModelsDir, next.Access = cfg.Models, cfg.ModelsDir, cfg.Access
	a.cfg, a.cards, a.warnings, a.images, a.memory = &next, p.cards, p.warnings, imagesOf(p.models), p.memory
	a.live.Watch(p.cards)
	if now := a.engine.Snapshot(); changed || a.turns.stuck || len(changeWarnings(now)) > 0 { // what did not come up is tried again
		a.engine.Apply(a.turns.want(p.models, now))
	}
	a.digests.look() // a file may have been replaced under its name
	return restart, nil
}

func (a *Appliance) current() *config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg
}

func wrap(part string, err error) error {
	if err == nil {
		return fmt.Errorf("%s ended by itself", part)
	}
	return fmt.Errorf("%s: %w", part, err)
}

// routes is everything the node answers, the same on the port and on the socket.
func (a *Appliance) routes() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Use(a.untilParting)
	a.gateway.Mount(e)
	a.mountStatus(e)
	a.mountCluster(e)
	a.mountAliases(e)
	a.mountCaches(e)
	a.mountCopies(e)
	a.mountReleases(e)
	a.mountImages(e)
	a.mountMetrics(e)
	a.mountSecret(e)
	a.mountVisit(e)
	a.mountUpdates(e)
	a.mountView(e)
	a.mountRestart(e)
	a.mountPages(e)
	return e
}

// slotsChanged passes on that this node's capacity may have changed; the engine calls it with its locks held.
func (a *Appliance) slotsChanged() {
	if a.gateway == nil || a.mesh == nil { // New applies the models before they are there
		return
	}
	a.gateway.Changed()
	a.mesh.tell()
}

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"viiwork/appliance/config"
	"viiwork/appliance/imagecopy"
	"viiwork/appliance/kvshare/transfer"
	"viiwork/appliance/mesh"
	"viiwork/appliance/modelcopy"
	"viiwork/appliance/releases"
	"viiwork/engine"
	"viiwork/serf"
	"viiwork/tsnode"
)

// membership is this node's part in the mesh: its place on the network, gossip, and what members tell each other. It
// stands beside the local service, which goes on whatever happens here.
type membership struct {
	cfg     *config.Config
	version string
	now     func() time.Time // nil = time.Now
	hangs   func(error)      // nil = it is lived without the network
	log     *slog.Logger
	secret  mesh.Secret // it started with
	keys    *mesh.Keyring
	node    *tsnode.Node
	table   *mesh.Table
	known   *mesh.Register // where conversations are
	aliases *mesh.Aliases
	session *mesh.SessionKey
	changed chan struct{} // holds one: gossip has news for the watcher
	news    chan struct{} // holds one: this node has other capacity

	report func() mesh.Report                        // this node's capacity
	serve  func(context.Context, net.Listener) error // answers on the device's own listener until ctx ends; not used on a lan
	attach func(*fellows)                            // hands the gateway what it needs of the mesh
	give   func(*fellows) *modelcopy.Server          // gives this node's models to members
	lead   func(context.Context, *fellows) error     // brings the mesh to other versions, and this node
	shelf  func(*fellows) *releases.Server           // and what it has of releases
	copies func(*fellows) *imagecopy.Server          // and its engines' images
	lend   func(*mesh.Verifier, *mesh.Table) mesh.DeskConfig[*engine.Lease]

	leave   sync.Once     // closes leaving
	leaving chan struct{} // closed when gossip is to end
	gone    chan struct{} // closed once it has

	mu      sync.Mutex // guards what is there only once the node has its place
	fellows *fellows
}

// fellows is what exists once this node has its identity.
type fellows struct {
	id        string
	cluster   *serf.Cluster
	client    *mesh.Client
	verifier  *mesh.Verifier
	desk      *mesh.Desk[*engine.Lease]
	publisher *mesh.Publisher
	watcher   *mesh.Watcher
	herald    *mesh.Herald
	rotation  *mesh.Rotation
	lock      *mesh.Lock
	giver     *modelcopy.Server
	shelf     *releases.Server
	copies    *imagecopy.Server
	carrier   atomic.Pointer[transfer.Server] // nil = caches are not moved
}

// newMembership takes the network's lock and starts nothing. It must be run, or its node closed.
func newMembership(cfg *config.Config, o Options) (*membership, error) {
	secret := mesh.ReadSecret(mesh.SecretConfig{StateDir: cfg.Node.StateDir, Secret: cfg.Mesh.Secret, Prev: cfg.Mesh.SecretPrev})
	keys, err := secret.Keys(cfg.Mesh.SecretEnforce)
	if err != nil {
		return nil, err
	}
	node, err := tsnode.New(tsnode.Config{
		Network: cfg.Mesh.Network, Name: cfg.Node.Name, StateDir: cfg.Node.StateDir,
		APIPort: cfg.API.Port, GossipPort: cfg.Mesh.BindPort, Seeds: cfg.Mesh.Seeds,
		Host: cfg.API.Host, MDNS: cfg.Mesh.LAN.MDNS,
		Hostname: cfg.Mesh.Tailnet.Hostname, AuthKey: cfg.Mesh.Tailnet.AuthKey,
		ControlURL: cfg.Mesh.Tailnet.ControlURL, Tags: cfg.Mesh.Tailnet.Tags,
		Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	ring := mesh.NewKeyring(keys)
	return &membership{
		cfg: cfg, version: o.Version, now: o.Now, hangs: o.Hangs, log: o.Log, secret: secret, keys: ring, node: node, table: mesh.NewTable(cfg.Routing.StaleAfter),
		aliases: mesh.NewAliases(mesh.AliasesConfig{Dir: cfg.Node.StateDir, Propose: cfg.Aliases, Log: o.Log}),
		session: mesh.NewSessionKey(mesh.SessionKeyConfig{StateDir: cfg.Node.StateDir, Keys: ring, Log: o.Log}),
		known:   mesh.NewRegister(mesh.RegisterConfig{Log: o.Log}),
		changed: make(chan struct{}, 1), news: make(chan struct{}, 1), leaving: make(chan struct{}), gone: make(chan struct{}),
	}, nil
}

// run keeps the node in the mesh until ctx ends. The network outlives gossip, so that a goodbye still leaves.
func (m *membership) run(ctx context.Context) error {
	network, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	m.log.Info("joining the network; this machine's own programs are served meanwhile", "network", m.cfg.Mesh.Network)
	ended := make(chan error, 1)
	go func() {
		err := m.node.Run(network)
		if errors.Is(err, tsnode.ErrHangs) && m.hangs != nil {
			m.hangs(err)
		}
		ended <- err
	}()
	select {
	case <-m.node.Ready():
	case err := <-ended:
		return fmt.Errorf("the network ended: %w", err)
	case <-ctx.Done():
		hangUp()
		return <-ended
	}
	err := m.live(ctx)
	hangUp()
	if down := <-ended; err == nil {
		err = down
	}
	return err
}

// live is a member's life, from its identity on.
func (m *membership) live(ctx context.Context) error {
	f, err := m.meet()
	if err != nil {
		return err
	}
	defer f.client.Close()
	g, ctx := errgroup.WithContext(ctx)
	// Gossip ends with the goodbye. What is needed to pass requests on ends with ctx, and with it the word of this node's
	// capacity: whoever runs its requests would take it for dead without.
	telling, hush := context.WithCancel(ctx)
	g.Go(func() error {
		defer hush()
		select {
		case <-m.leaving:
		case <-ctx.Done():
		}
		return nil
	})
	if m.cfg.Mesh.Network == "tailnet" {
		l, err := m.node.ListenStream(m.cfg.API.Port)
		if err != nil {
			return fmt.Errorf("answering on the tailnet: %w", err)
		}
		g.Go(func() error { return m.serve(ctx, l) })
	}
	m.mu.Lock()
	m.fellows = f
	m.mu.Unlock()
	m.attach(f)
	if carrier := f.carrier.Load(); carrier != nil {
		g.Go(func() error { return carrier.Run(ctx) })
	}
	g.Go(func() error { defer close(m.gone); return f.cluster.Run(telling) })
	g.Go(func() error { return f.herald.Run(telling) })
	g.Go(func() error { return f.rotation.Run(telling) })
	g.Go(func() error { return m.lead(telling, f) })
	g.Go(func() error { return m.discover(telling, f) })
	g.Go(func() error { return m.relay(ctx, f) })
	g.Go(func() error { return f.publisher.Run(ctx) })
	g.Go(func() error { return f.desk.Run(ctx) })
	g.Go(func() error { return f.giver.Run(ctx) })
	g.Go(func() error { return f.copies.Run(ctx) })
	g.Go(func() error { return f.watcher.Run(ctx) })
	return g.Wait()
}

// sayGoodbye leaves gossip, and waits for that; ended tells that there is no mesh to leave any more, abort that nobody
// wants to wait. Requests are passed on until run ends.
func (m *membership) sayGoodbye(ended, abort <-chan struct{}) {
	m.leave.Do(func() { close(m.leaving) })
	if m.current() == nil {
		return
	}
	select {
	case <-m.gone:
	case <-ended:
	case <-abort:
	}
}

// meet makes what needs the node's identity.
func (m *membership) meet() (*fellows, error) {
	f := &fellows{id: m.node.ID()}
	signer := mesh.NewSigner(mesh.SignerConfig{ID: f.id, Keys: m.keys, Now: m.now})
	f.verifier = mesh.NewVerifier(mesh.VerifierConfig{ID: f.id, Keys: m.keys, Now: m.now})
	f.client = mesh.NewClient(mesh.ClientConfig{Signer: signer, Dial: m.node.DialContext})
	f.publisher = mesh.NewPublisher(mesh.PublisherConfig{
		ID: f.id, Name: m.cfg.Node.Name, Version: m.version, Source: m.report, Verifier: f.verifier, Session: m.session, Known: m.known, Log: m.log,
	})
	f.desk = mesh.NewDesk(m.lend(f.verifier, m.table))
	var key, prev []byte
	if all := m.keys.Load().Gossip(); len(all) > 0 {
		key = all[0]
		if len(all) > 1 {
			prev = all[1]
		}
	}
	m.node.Admit(serf.Remembered(m.cfg.Node.StateDir)...) // else who is asked first could not be dialled
	var err error
	f.cluster, err = serf.New(serf.Config{
		ID: f.id, Name: m.cfg.Node.Name, API: netip.AddrPortFrom(m.node.Addr(), uint16(m.cfg.API.Port)),
		Version: m.version, Wire: mesh.Wire, Port: m.cfg.Mesh.BindPort, StateDir: filepath.Clean(m.cfg.Node.StateDir),
		Key: key, Prev: prev, Enforce: serf.Enforce(m.cfg.Mesh.SecretEnforce), Network: m.node, Log: m.log,
	})
	if err != nil {
		return nil, err
	}
	f.rotation = m.newRotation(f)
	f.lock = mesh.NewLock(mesh.LockConfig{
		ID: f.id, Name: m.cfg.Node.Name, Dir: m.cfg.Node.StateDir, Keys: m.keys, Client: f.client, Verifier: f.verifier,
		Members: func() (alive, failed, left []mesh.Member) { return byState(f.cluster) }, Log: m.log,
	})
	f.giver, f.shelf, f.copies = m.give(f), m.shelf(f), m.copies(f)
	f.watcher = mesh.NewWatcher(mesh.WatcherConfig{
		ID: f.id, Members: func() []mesh.Member { return alive(f.cluster) }, Changed: m.changed,
		Client: f.client, Table: m.table, Session: m.session, Known: m.known, Log: m.log,
	})
	m.aliases.Join(f.id)
	f.herald = mesh.NewHerald(mesh.HeraldConfig{
		ID: f.id, Aliases: m.aliases, Members: func() []mesh.Member { return alive(f.cluster) },
		Client: f.client, Verifier: f.verifier, Tell: f.tellAliases, Log: m.log,
	})
	return f, nil
}

// aliasMessage is the name by which gossip carries what a herald tells.
const aliasMessage = "aliases"

// tellAliases waits no longer than gossip needs to start: what is not told now is told again.
func (f *fellows) tellAliases(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return f.cluster.Broadcast(ctx, aliasMessage, message)
}

// alive lists the members to follow.
func alive(c *serf.Cluster) (members []mesh.Member) {
	for _, s := range c.Members() {
		if s.State == serf.StateAlive {
			members = append(members, mesh.Member{ID: s.ID, Name: s.Name, Addr: s.API.String(), Version: s.Version})
		}
	}
	return members
}

// relay passes news on: gossip's to the watcher and to the network's list of who may be dialled, the engine's to the
// publisher.
func (m *membership) relay(ctx context.Context, f *fellows) error {
	events, cancel := f.cluster.Subscribe()
	defer cancel()
	m.spread(f) // who was there before the subscription
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.news:
			f.publisher.Changed()
		case e, ok := <-events:
			if !ok { // gossip has ended; this node still tells of itself
				events = nil
				continue
			}
			if e.Kind == serf.KindMessage {
				f.hear(e)
				continue
			}
			m.spread(f)
			if e.Kind == serf.KindJoined {
				f.herald.Met(e.Member.ID)
			}
		}
	}
}

// hear passes a message on to whom it is for.
func (f *fellows) hear(e serf.Event) {
	if e.Name == aliasMessage {
		f.herald.Hear(e.Payload)
	}
}

// spread tells the network and the watcher who the members are.
func (m *membership) spread(f *fellows) {
	var reachable []netip.Addr
	for _, s := range f.cluster.Members() {
		reachable = append(reachable, s.Addr.Addr())
	}
	m.node.Admit(reachable...)
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// tell says that this node's capacity may have changed. It never waits.
func (m *membership) tell() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// current is what there is of the mesh at this moment, nil before the node has its place.
func (m *membership) current() *fellows {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fellows
}

// hostName is the device's own name on its tailnet, "" on a lan.
func (m *membership) hostName() string { return m.node.Status().DNSName }

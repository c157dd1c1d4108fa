package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"viiwork/appliance/config"
	"viiwork/engine"
	"viiwork/engine/docker"
	"viiwork/engine/gpu"
	"viiwork/engine/llama"
	"viiwork/engine/native"
	"viiwork/tsnode"
)

// Probe is what the doctor knows beside the configuration, and how it looks at the world. A nil function is the real
// world's.
type Probe struct {
	ConfigPath string    // "" = none was found
	ConfigErr  error     // what was wrong with it; nil = nothing
	Built      time.Time // when this program was built; zero = unknown

	Node    func(ctx context.Context) error           // asks the running node; nil = there is none to ask
	Around  func(ctx context.Context) (Around, error) // asks it for what it knows; nil = there is none to ask
	Docker  func(ctx context.Context) error           // asks Docker for a sign of life
	Image   func(ctx context.Context, image string) error
	Program func(ctx context.Context, binary string) error
	Cards   func(ctx context.Context) ([]gpu.Card, []gpu.Fault)
	HandOn  func(ctx context.Context, image string) error // starts a container of image with all NVIDIA cards, for a moment
	Listen  func(addr string) error                       // binds addr and lets it go
	Free    func(dir string) (int64, error)               // bytes this user may still write below dir
	Memory  func() (int64, error)                         // bytes of RAM
	MTU     func() map[string]int                         // of the interfaces that are up
	Nearby  func(ctx context.Context) []string            // names of nodes that announce themselves on this LAN
	OS      string                                        // linux or darwin; "" = this one's
	Now     func() time.Time
}

// orReal fills in the real world for what the caller left out.
func (p Probe) orReal(cfg *config.Config) Probe {
	if cfg == nil {
		cfg = &config.Config{} // of a machine without one
	}
	if p.Docker == nil {
		p.Docker = pingDocker
	}
	if p.Image == nil {
		p.Image = probeImage
	}
	if p.Program == nil {
		p.Program = probeProgram
	}
	if p.Cards == nil {
		p.Cards = func(ctx context.Context) ([]gpu.Card, []gpu.Fault) { return realCards(ctx, cfg) }
	}
	if p.HandOn == nil {
		p.HandOn = handOn
	}
	if p.Listen == nil {
		p.Listen = listenOnce
	}
	if p.Free == nil {
		p.Free = freeBytes
	}
	if p.Memory == nil {
		p.Memory = memoryBytes
	}
	if p.MTU == nil {
		p.MTU = interfaceMTUs
	}
	if p.Nearby == nil {
		p.Nearby = func(ctx context.Context) []string { return listenAround(ctx, cfg) }
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	return p
}

// probeImage runs the image's engine once, without network: the daemon answers, the image is here, and it is an engine.
func probeImage(ctx context.Context, image string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	runner := dockerRunner()
	defer runner.Close()
	return probeEngine(ctx, runner, engine.Model{Runner: engine.RunnerDocker, Image: image})
}

func dockerRunner() *docker.Runner {
	return docker.New(docker.Config{Node: "doctor", StateDir: os.TempDir(), UID: os.Getuid(), GID: os.Getgid()})
}

func realCards(ctx context.Context, cfg *config.Config) ([]gpu.Card, []gpu.Fault) {
	runner := dockerRunner()
	defer runner.Close()
	return ListCards(ctx, gpu.At("/"), cfg, runner.ProbeCards)
}

// handOn asks nvidia-smi in a container what cards it has been given.
func handOn(ctx context.Context, image string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	runner := dockerRunner()
	defer runner.Close()
	out, err := runner.ProbeCards(ctx, image, "nvidia-smi", "-L")
	if err != nil && out != "" {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(out))
	}
	return err
}

func probeProgram(ctx context.Context, binary string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	runner := native.New(native.Config{Node: "doctor", StateDir: os.TempDir()})
	return probeEngine(ctx, runner, engine.Model{Runner: engine.RunnerNative, Binary: binary})
}

// probeEngine asks a program what the node asks it before a start. Many a program that is no engine knows --version;
// what it says for --help tells.
func probeEngine(ctx context.Context, runner engine.Runner, m engine.Model) error {
	version, err := runner.Probe(ctx, m, "--version")
	if err != nil {
		return err
	}
	help, err := runner.Probe(ctx, m, "--help")
	if err != nil {
		return err
	}
	_, err = llama.New(nil).Build(version, help)
	return err
}

func listenOnce(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

func freeBytes(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("asking for the free space of %s: %w", dir, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil
}

func memoryBytes() (int64, error) {
	if total := TotalMemory(); total > 0 {
		return int64(total), nil
	}
	return 0, errors.New("this machine does not tell it")
}

// existing is dir, or the nearest directory above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// interfaceMTUs reads those that carry traffic of the mesh. A tunnel of somebody's is theirs.
func interfaceMTUs() map[string]int {
	found := map[string]int{}
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 && i.Flags&(net.FlagLoopback|net.FlagPointToPoint) == 0 && i.Flags&net.FlagBroadcast != 0 {
			found[i.Name] = i.MTU
		}
	}
	return found
}

// listenFor is what nodes of a LAN are given to answer in.
const listenFor = 1500 * time.Millisecond

// listenAround asks by mDNS who is here, without being one of them.
func listenAround(ctx context.Context, cfg *config.Config) (names []string) {
	if cfg.Mesh.Network != tsnode.Tailnet || !cfg.Mesh.LAN.MDNS {
		return nil
	}
	dir, err := os.MkdirTemp("", "viiwork-doctor-")
	if err != nil {
		return nil
	}
	defer os.RemoveAll(dir)
	node, err := tsnode.New(tsnode.Config{Network: tsnode.LAN, Name: "doctor", StateDir: dir, MDNS: true, Mute: true, GossipPort: cfg.Mesh.BindPort})
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listenFor)
	defer cancel()
	_ = node.Run(ctx) // it ends with ctx
	for _, p := range node.Peers() {
		names = append(names, p.Name)
	}
	return names
}

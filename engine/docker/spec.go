package docker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-connections/nat"

	"viiwork/engine"
)

// Labels of our containers. The state digest says whose a container is; the rest is for adoption and for the owner's
// `docker ps`.
const (
	labelNode    = "viiwork.node"    // node name and state digest
	labelState   = "viiwork.state"   // digest of the node's state folder
	labelBackend = "viiwork.backend" // backend id
	labelHash    = "viiwork.hash"    // digest of the specification
	labelProbe   = "viiwork.probe"   // on a throw-away container instead of the two above
)

// enginePort is where an engine listens inside its container. The port on the host is Docker's choice.
const enginePort = 8080

// host is what a specification needs to know of this machine and of the image.
type host struct {
	user     string            // uid:gid of the node
	labels   map[string]string // those every container of this node carries
	imageEnv []string          // the image's own variables
	groups   []string          // numeric groups that own the card's device files
}

// backendSpec describes the container of one backend. It is pure: what it reads of the machine is in h.
func backendSpec(spec engine.Spec, h host) (*container.Config, *container.HostConfig) {
	port := nat.Port(strconv.Itoa(enginePort) + "/tcp")
	cfg, hostCfg := baseSpec(spec.Model.Image, h)
	cfg.Labels[labelBackend] = spec.Backend
	cfg.Labels[labelHash] = spec.Hash
	cfg.Cmd = append(slices.Clone(spec.Args), spec.Bind("0.0.0.0", enginePort)...)
	cfg.Env = environment(spec, h.imageEnv)
	cfg.ExposedPorts = nat.PortSet{port: {}}
	hostCfg.PortBindings = nat.PortMap{port: {{HostIP: "127.0.0.1"}}}
	hostCfg.Mounts = mounts(spec)
	bindCards(hostCfg, spec, h)
	return cfg, hostCfg
}

// probeSpec describes a throw-away container that has neither cards nor network and goes away by itself, also when the
// node dies in the middle.
func probeSpec(m engine.Model, args []string, h host) (*container.Config, *container.HostConfig) {
	cfg, hostCfg := baseSpec(m.Image, h)
	cfg.Labels[labelProbe] = "1"
	cfg.Cmd = args
	cfg.Env = environment(engine.Spec{Model: m}, h.imageEnv)
	hostCfg.NetworkMode = "none"
	hostCfg.AutoRemove = true
	return cfg, hostCfg
}

// baseSpec is what backends and probes share: everything that keeps a hostile image or model in its place.
func baseSpec(image string, h host) (*container.Config, *container.HostConfig) {
	grace := 3 // seconds for a `docker stop` by hand: llama-server never leaves on one SIGTERM while a stream is open
	cfg := &container.Config{
		Image:       image,
		User:        h.user,
		Labels:      maps.Clone(h.labels),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // upstream's asks a port that need not be ours
		StopTimeout: &grace,
	}
	hostCfg := &container.HostConfig{
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		Tmpfs:          map[string]string{"/tmp": "rw,nosuid,nodev,size=1g,mode=1777"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig: container.LogConfig{
			Type:   "json-file",
			Config: map[string]string{"max-size": "10m", "max-file": "2"},
		},
	}
	return cfg, hostCfg
}

// environment removes the image's own device variables and flags (a name without '=' does that) and adds ours. The
// owner's env comes last, so it wins.
func environment(spec engine.Spec, imageEnv []string) []string {
	set := map[string]string{"HOME": "/tmp"} // kernel caches of CUDA, HIP and Vulkan go there; the root is read-only
	maps.Copy(set, deviceEnv(spec.Model.Accel, spec.GPUs))
	maps.Copy(set, spec.Model.Env)
	maps.Copy(set, spec.Env)

	var env []string
	for _, entry := range imageEnv {
		name, _, _ := strings.Cut(entry, "=")
		if _, ours := set[name]; !ours && engine.Overridden(name) {
			env = append(env, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, name+"="+set[name])
	}
	return env
}

// deviceEnv differs from [engine.DeviceEnv] for NVIDIA alone: there the container holds nothing but its own cards,
// counted from 0.
func deviceEnv(accel engine.Accel, gpus []int) map[string]string {
	if accel == engine.AccelCUDA && len(gpus) > 0 {
		return map[string]string{"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
	}
	env := maps.Clone(engine.DeviceEnv(accel, gpus))
	if len(gpus) == 0 {
		if env == nil {
			env = map[string]string{}
		}
		env["NVIDIA_VISIBLE_DEVICES"] = "void" // where nvidia is the default runtime, an image may ask for all cards
	}
	return env
}

func mounts(spec engine.Spec) []mount.Mount {
	var list []mount.Mount
	bind := func(path string, readOnly bool) {
		if path == "" || slices.ContainsFunc(list, func(m mount.Mount) bool { return m.Target == path }) {
			return
		}
		list = append(list, mount.Mount{Type: mount.TypeBind, Source: path, Target: path, ReadOnly: readOnly})
	}
	bind(spec.SlotDir, false)
	bind(spec.KeyFile, true)
	for _, dir := range spec.ReadOnly {
		bind(dir, true)
	}
	return list
}

func bindCards(hostCfg *container.HostConfig, spec engine.Spec, h host) {
	if len(spec.GPUs) == 0 {
		return
	}
	switch spec.Model.Accel {
	case engine.AccelCUDA:
		ids := make([]string, len(spec.GPUs))
		for i, n := range spec.GPUs {
			ids[i] = strconv.Itoa(n)
		}
		// No driver named: as with `docker run --gpus`, Docker takes the one that offers the capability.
		hostCfg.DeviceRequests = []container.DeviceRequest{{DeviceIDs: ids, Capabilities: [][]string{{"gpu"}}}}
	case engine.AccelROCm:
		for _, path := range []string{"/dev/kfd", "/dev/dri"} {
			hostCfg.Devices = append(hostCfg.Devices,
				container.DeviceMapping{PathOnHost: path, PathInContainer: path, CgroupPermissions: "rwm"})
		}
		// Numbers, not names: the image's own groups video and render may have other numbers, or not exist.
		hostCfg.GroupAdd = h.groups
		hostCfg.IpcMode = "host" // a second ROCm container cannot initialise its cards without it
	}
}

// containerName is the same for every start of one name of a backend's engines, so that two of it can never run side by side.
func containerName(node, backend string) string {
	return fmt.Sprintf("viiwork-%s-%s", node, engine.SafeName(backend))
}

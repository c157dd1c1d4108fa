package docker

import (
	"github.com/docker/docker/api/types/container"

	"viiwork/engine"
)

// Container is what Docker is asked for, for golden files.
type Container struct {
	Config *container.Config
	Host   *container.HostConfig
}

// BackendContainer describes the container of a backend on a machine with these device groups.
func BackendContainer(spec engine.Spec, imageEnv, groups []string) Container {
	cfg, hostCfg := backendSpec(spec, testHost(imageEnv, groups))
	return Container{cfg, hostCfg}
}

// ProbeContainer describes a probe's container.
func ProbeContainer(m engine.Model, args []string, imageEnv []string) Container {
	cfg, hostCfg := probeSpec(m, args, testHost(imageEnv, nil))
	return Container{cfg, hostCfg}
}

func testHost(imageEnv, groups []string) host {
	return host{
		user:     "1000:1001",
		labels:   map[string]string{labelNode: "attic-0123456789ab", labelState: "0123456789ab"},
		imageEnv: imageEnv,
		groups:   groups,
	}
}

var (
	CardGroups = cardGroups
	ExitOf     = exitOf

	ContainerID    = containerID
	HomeOf         = homeOf
	RootlessSocket = rootlessSocket
)

package docker_test

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"viiwork/engine/docker"
)

func TestOwnContainerIsFoundByItsMounts(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	inside := "612 600 0:50 / /proc rw - proc proc rw\n" +
		"630 600 254:0 /var/lib/docker/containers/" + id + "/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/vda rw\n"
	for text, want := range map[string]string{
		inside: id,
		// On the machine itself containers' folders are seen as well.
		"33 1 254:0 /var/lib/docker/containers/" + id + "/mounts/shm /var/lib/docker/containers/" + id + "/mounts/shm rw - tmpfs shm rw\n": "",
		"30 1 254:0 / / rw - ext4 /dev/vda rw\n": "",
		"":                                       "",
	} {
		if got := docker.ContainerID(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPathsAreTracedToTheMachine(t *testing.T) {
	h := docker.HomeOf(container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{Name: "/node", HostConfig: &container.HostConfig{NetworkMode: "host"}},
		Mounts: []container.MountPoint{
			{Type: "bind", Source: "/srv/models", Destination: "/srv/models"},
			{Type: "bind", Source: "/mnt/fast", Destination: "/srv/models/fast"},
			{Type: "volume", Source: "/var/lib/docker/volumes/v/_data", Destination: "/var/lib/viiwork"},
		},
	})
	if h.Name != "node" || !h.HostNetwork {
		t.Errorf("%+v", h)
	}
	for path, want := range map[string]string{
		"/srv/models":         "/srv/models",
		"/srv/models/a.gguf":  "/srv/models/a.gguf",
		"/srv/models/fast/b":  "/mnt/fast/b",
		"/srv/models2":        "",
		"/var/lib/viiwork":    "/var/lib/docker/volumes/v/_data",
		"/var/lib/viiwork/..": "",
		"/etc/viiwork":        "",
	} {
		if got := h.At(path); got != want {
			t.Errorf("%s is %q on the machine, want %q", path, got, want)
		}
	}
}

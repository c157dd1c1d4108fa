package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/client"
)

// explain adds the way out to the faults an owner can mend. Docker tells those of cards by text alone, and only when a
// container starts.
func (r *Runner) explain(err error) error {
	text := err.Error()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to use Docker: %w: add this user to group docker and log in again, or set runner: native", err)
	case r.clientErr != nil:
		return fmt.Errorf("reading Docker's address: %w: mend DOCKER_HOST, or set runner: native", err)
	case client.IsErrConnectionFailed(err) && rootlessSocket(os.Getenv) != "":
		return fmt.Errorf("no Docker at its usual place: %w: this user's own (rootless) listens at %s: set DOCKER_HOST=unix://%[2]s", err, rootlessSocket(os.Getenv))
	case client.IsErrConnectionFailed(err):
		return fmt.Errorf("no Docker is running or reachable: %w: start it with 'systemctl start docker', or set runner: native", err)
	case strings.Contains(text, "could not select device driver"):
		return fmt.Errorf("handing NVIDIA cards to a container: %w: install nvidia-container-toolkit, run 'nvidia-ctk runtime configure --runtime=docker' and restart Docker", err)
	case strings.Contains(text, "nvidia-container-cli") && strings.Contains(text, "unknown device"):
		return fmt.Errorf("no such NVIDIA card: %w: compare the model's gpus with 'nvidia-smi -L'", err)
	case strings.Contains(text, "bind source path does not exist"):
		return fmt.Errorf("%w: check the model's path; with Docker in a virtual machine, share that folder with it", err)
	}
	return err
}

// ownImages are the images this project makes itself: no registry has them.
const ownImages = "viiwork-engine:"

func missingImage(image string) error {
	if name, ok := strings.CutPrefix(image, ownImages); ok {
		return fmt.Errorf("image %s is not on this machine: make it with 'viiwork images build %s'", image, name)
	}
	if strings.HasPrefix(image, "sha256:") {
		return fmt.Errorf("image %s, which was checked or made before, is not on this machine any more: 'viiwork images ls' tells its name, 'viiwork images pull NAME' (or build NAME) brings it back", image)
	}
	return fmt.Errorf("image %s is not on this machine: 'viiwork images pull %s' fetches it", image, image)
}

// rootlessSocket is where this user's own Docker listens, if there is one and no address was set; else "".
func rootlessSocket(getenv func(string) string) string {
	dir := getenv("XDG_RUNTIME_DIR")
	if dir == "" || getenv("DOCKER_HOST") != "" {
		return ""
	}
	path := filepath.Join(dir, "docker.sock")
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return ""
	}
	return path
}

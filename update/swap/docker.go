package swap

import (
	"context"
	"io"
	"time"
)

// Box is a container of the node's own program, by our own rules. Its user has no rights but those of its groups; its root
// cannot be written; its network is the machine's.
type Box struct {
	Name       string
	Image      string   // an id
	Entrypoint []string // nil = the image's
	Args       []string
	User       string   // uid:gid
	Groups     []string // numbers
	Env        []string
	Binds      []string // "/on/the/machine:/inside" or "volume:/inside", ":ro" behind it
	Devices    []string
	Labels     map[string]string
	Restart    string        // as Docker calls its policies; "" = never
	Grace      time.Duration // between SIGTERM and SIGKILL
}

// BoxState is what Docker tells of a container.
type BoxState struct {
	ID, Name string
	Image    string
	Labels   map[string]string
	Running  bool
	Started  time.Time // zero = it never was
	Starts   int       // times that Docker started it again by itself
	Exit     int       // of the last end
}

// Boxes are Docker's containers. A name that is taken, or an act on what is gone, is an error, but for the removal of it.
type Boxes interface {
	LookAt(ctx context.Context, name string) (BoxState, error) // by name or id; fs.ErrNotExist = there is none
	MakeBox(ctx context.Context, b Box) (id string, err error)
	RenameBox(ctx context.Context, id, name string) error
	RemoveBox(ctx context.Context, id string) error
}

// Power starts and ends them. What runs is started at no cost, and what has ended is stopped at none.
type Power interface {
	StartBox(ctx context.Context, id string) error
	StopBox(ctx context.Context, id string, grace time.Duration) error
	TryBox(ctx context.Context, b Box) (printed string, err error) // to its end, without a network
}

// Images are Docker's images.
type Images interface {
	LoadImage(ctx context.Context, archive io.Reader) error
	ImageContent(ctx context.Context, ref string) (id string, content []string, err error)
	Tag(ctx context.Context, id, name string) error
	ForgetImage(ctx context.Context, name string) error
}

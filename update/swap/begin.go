package swap

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"viiwork/update"
	"viiwork/update/install"
)

// Order is what an update of the container is to be.
type Order struct {
	Release *update.Verified // nil = back to the image of before
	Self    Self
	From    string // the version that runs
	Named   bool   // a person named the version: one that was taken back is tried again
	Config  string // the node's viiwork.yaml; the new program has to take it
	Socket  string // of the node
	Node    string // its name

	Patience time.Duration          // until the new one must be as ready as the old one was; it must be said
	Watch    time.Duration          // how long it has to stay up then; 0 = a minute
	Said     func(string)           // told of what an owner should know; nil = nobody is
	Fetched  func(done, size int64) // told how many bytes of the image have come, many times; nil = nobody is
}

const defaultWatch = time.Minute

// imageName is what an image that was fetched for a swap is called in Docker, for people. All else goes by its id.
func imageName(version string) string { return "viiwork-node:" + version }

// Ready is a swap that is prepared. Docker has the image, nothing else has changed, and nothing will by itself.
type Ready struct {
	Order
	with   Config
	folder Folder
	plan   Plan
}

// Begin prepares a swap and begins it.
func Begin(ctx context.Context, cfg Config, o Order) error {
	r, err := Prepare(ctx, cfg, o)
	if err != nil {
		return err
	}
	return r.Begin(ctx)
}

// Prepare fetches and tries the new image, and looks at how the node is now: the new one is held to that.
func Prepare(ctx context.Context, cfg Config, o Order) (*Ready, error) {
	if err := o.Self.Check(); err != nil {
		return nil, err
	}
	if o.Said == nil {
		o.Said = func(string) {}
	}
	if o.Fetched == nil {
		o.Fetched = func(int64, int64) {}
	}
	if cfg.Node == nil {
		cfg.Node = func(socket, name string) install.Node { return install.LocalNode{Socket: socket, Name: name} }
	}
	b := &Ready{Order: o, with: cfg, folder: At(cfg.StateDir)}
	unlock, err := b.first()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := b.admit(ctx); err != nil {
		return nil, err
	}
	if err := b.image(ctx); err != nil {
		return nil, err
	}
	if err := b.try(ctx); err != nil {
		return nil, fmt.Errorf("trying %s before the node is stopped: %w", b.plan.Version, err)
	}
	b.plan.Before = install.Observe(ctx, cfg.Node(o.Socket, o.Node), o.Said)
	return b, ctx.Err()
}

// Begin hands a prepared swap to a helper, unless another has begun meanwhile. After an error nothing runs that did not run
// before, and nothing has been stopped; without one this process will be ended soon, and its container with it.
func (b *Ready) Begin(ctx context.Context) error {
	unlock, err := b.first()
	if err != nil {
		return err
	}
	defer unlock()
	if err := b.alone(ctx); err != nil {
		return err
	}
	if err := install.KeepState(b.with.StateDir, b.From); err != nil {
		return err
	}
	b.plan.Since = time.Now().UTC()
	return b.handOver(ctx)
}

// first keeps others from preparing or beginning one at the same time.
func (b *Ready) first() (unlock func(), err error) {
	lock, err := b.folder.lock("begin.lock", unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: another update of this node is being prepared: wait until it has ended", install.ErrBusy)
	}
	if err != nil {
		return nil, err
	}
	return func() { letGo(lock) }, nil
}

// alone refuses while another swap goes on, and makes sure that it does.
func (b *Ready) alone(ctx context.Context) error {
	p, err := b.folder.Plan()
	if err != nil || p == nil {
		return err
	}
	return errors.Join(Resume(ctx, b.with), fmt.Errorf("%w: %s is on trial since %s: 'viiwork status' tells how it goes, 'viiwork update --rollback' takes it back",
		install.ErrBusy, p.Version, p.Since.Local().Format(time.DateTime)))
}

// admit fills in the plan as far as the order goes, or says why there is none.
func (b *Ready) admit(ctx context.Context) error {
	if err := b.alone(ctx); err != nil {
		return err
	}
	s, err := b.folder.State()
	if err != nil {
		return err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	b.plan = Plan{
		ID: hex.EncodeToString(id[:]), From: b.From, Old: b.Self.ID, OldImage: b.Self.Image, Name: b.Self.Name, Socket: b.Socket, Node: b.Node,
		Patience: int64(min(b.Patience, maxPatience) / time.Second), Watch: int64(b.Watch / time.Second), Runs: helperRuns, Stage: install.Switched,
	}
	if b.Watch <= 0 {
		b.plan.Watch = int64(defaultWatch / time.Second)
	}
	switch {
	case b.Release != nil:
		b.plan.Version, b.plan.Digest = b.Release.Version(), b.Release.Digest()
	case s.Previous != nil:
		b.plan.Version, b.plan.Image = s.Previous.Version, s.Previous.Image
	default:
		return fmt.Errorf("going back: %w: no version was here before: 'viiwork update --to VERSION --allow-downgrade' fetches one", ErrRefused)
	}
	if b.plan.Version == b.From {
		return fmt.Errorf("%w: %s runs already", ErrRefused, b.From)
	}
	for _, bad := range s.Bad {
		if bad.Version == b.plan.Version && !b.Named && b.Release != nil {
			return fmt.Errorf("%w: %s was taken back on %s: %s: 'viiwork update --to %s' tries it again", ErrRefused, bad.Version, bad.Time.Local().Format(time.DateTime), bad.Why, bad.Version)
		}
	}
	return nil
}

// image has the new image in Docker, and its id and content in the plan.
func (b *Ready) image(ctx context.Context) error {
	if b.Release == nil {
		id, content, err := b.with.Images.ImageContent(ctx, b.plan.Image)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("going back to %s: %w: its image is no longer in Docker: 'viiwork update --to %s --allow-downgrade' fetches it", b.plan.Version, ErrRefused, b.plan.Version)
		}
		b.plan.Image, b.plan.Content = id, content
		return err
	}
	proved, err := b.load(ctx)
	if err != nil {
		return fmt.Errorf("fetching the image of %s: %w", b.plan.Version, err)
	}
	id, content, err := b.with.Images.ImageContent(ctx, imageName(b.plan.Version))
	if err != nil {
		return err
	}
	// Docker's store of its own calls an image by the digest of its configuration. Others have names of their own for what
	// they made of it, and tell the content alone.
	if id != proved.Config && !slices.Equal(content, proved.Content) {
		return fmt.Errorf("image %s, which Docker has under the name of %s, is not what was proved: do not use it", id, b.plan.Version)
	}
	b.plan.Image, b.plan.Content = id, proved.Content
	return nil
}

// load gives Docker the image when all of it is here and proved, and not before.
func (b *Ready) load(ctx context.Context) (update.Image, error) {
	path := b.folder.at("image.tar")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return update.Image{}, err
	}
	defer os.Remove(path)
	defer file.Close()
	proved, err := b.Release.Image(ctx, "linux/"+runtime.GOARCH, imageName(b.plan.Version), &counted{to: file, said: b.Fetched})
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: make room on the disk of %s and try again", err, b.with.StateDir)
	}
	if err != nil {
		return update.Image{}, err
	}
	if _, err := file.Seek(0, 0); err != nil {
		return update.Image{}, err
	}
	return proved, b.with.Images.LoadImage(ctx, file)
}

// counted tells how much was written.
type counted struct {
	to         io.Writer
	done, size int64
	said       func(done, size int64)
}

// Expect is told the size of nearly all before that comes.
func (c *counted) Expect(size int64) { c.size = size }

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.done += int64(n)
	c.said(min(c.done, c.size), c.size)
	return n, err
}

// try has the new program say what it is and read the node's configuration, in the place that it is to have.
func (b *Ready) try(ctx context.Context) error {
	b.plan.New = b.Self.node(b.plan.ID, b.plan.Image)
	box := b.plan.New
	box.Name, box.Args = "", []string{"version", "--json"}
	said, err := b.with.Power.TryBox(ctx, box)
	if err != nil {
		return fmt.Errorf("it does not say its version: %w: %s", err, install.Clip(said))
	}
	var is struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal([]byte(said), &is); err != nil || is.Version != b.plan.Version {
		return fmt.Errorf("it says that it is %s", install.Clip(strings.TrimSpace(said)))
	}
	if b.Config == "" {
		return nil
	}
	box.Args = []string{"config", "validate", b.Config}
	said, err = b.with.Power.TryBox(ctx, box)
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	// What the old program has against it as well, and runs all the same, is no reason: a card that is lost, say.
	box.Image = b.Self.Image
	if before, odd := b.with.Power.TryBox(ctx, box); odd != nil && within(said, before) {
		return nil
	}
	return fmt.Errorf("it refuses the configuration: %w: %s: mend %s for it and update again, nothing was changed", err, install.Clip(said), b.Config)
}

// within reports whether each line of some words is among others.
func within(words, others string) bool {
	known := strings.Split(others, "\n")
	for line := range strings.SplitSeq(words, "\n") {
		if !slices.Contains(known, line) {
			return false
		}
	}
	return true
}

// handOver makes the helper, then the plan, and only then starts the one on the other: cut off before, nothing happens;
// cut off after the plan, the next start of the node or the next update starts the helper.
func (b *Ready) handOver(ctx context.Context) error {
	if tag := b.Self.ImageName; b.moves(ctx, tag) {
		b.plan.Tag = tag
	}
	if err := b.clearHelper(ctx); err != nil {
		return err
	}
	if _, err := b.with.Boxes.MakeBox(ctx, b.Self.helper(b.plan.ID, b.with.StateDir)); err != nil {
		return err
	}
	if err := b.folder.write("plan.json", &b.plan); err != nil {
		_ = b.clearHelper(context.WithoutCancel(ctx))
		return err
	}
	return Resume(ctx, b.with)
}

// moves reports whether a name should stand for the new image later: one that stands for the old one, and says no version.
func (b *Ready) moves(ctx context.Context, name string) bool {
	if name == "" || strings.Contains(name, "@") || strings.HasPrefix(name, "sha256:") {
		return false
	}
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") && update.CheckVersion(name[i+1:]) == nil {
		return false
	}
	id, _, err := b.with.Images.ImageContent(ctx, name)
	return err == nil && id == b.Self.Image
}

// clearHelper removes the helper of an earlier plan.
func (b *Ready) clearHelper(ctx context.Context) error {
	is, err := b.with.Boxes.LookAt(ctx, b.Self.Name+helperEnd)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case is.Labels[labelRole] != aideRole:
		return fmt.Errorf("%w: the name %s is taken by container %.12s: rename or remove it", ErrRefused, is.Name, is.ID)
	}
	return b.with.Boxes.RemoveBox(ctx, is.ID)
}

// Resume starts the helper of a plan that waits for one. Without a plan it does nothing.
func Resume(ctx context.Context, cfg Config) error {
	p, err := At(cfg.StateDir).Plan()
	if err != nil || p == nil {
		return err
	}
	is, err := cfg.Boxes.LookAt(ctx, p.Name+helperEnd)
	if err == nil && is.Labels[labelPlan] != p.ID {
		err = fmt.Errorf("the name %s is taken by container %.12s: rename or remove it", is.Name, is.ID)
	}
	if err != nil {
		return fmt.Errorf("starting the helper of an update: %w", err)
	}
	if is.Running {
		return nil
	}
	return cfg.Power.StartBox(ctx, is.ID)
}

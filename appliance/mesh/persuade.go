package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// patience is for one attempt to reach a member: the first connection to a device of a tailnet may take 5 s.
	patience = 10 * time.Second
	attempts = 3
	between  = time.Second // two attempts
)

// all tells everyone at one time. It returns who went along, and an error that names the first by name who did not.
func (l *lead) all(ctx context.Context, members []Member, step message) (map[string]answer, error) {
	var (
		mu      sync.Mutex
		answers = map[string]answer{}
		faults  []string
		told    sync.WaitGroup
	)
	for _, m := range members {
		told.Go(func() {
			a, err := l.persuade(ctx, m, l.to(m, step))
			l.progress(m, step.Step, err)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, errGone) {
				return
			}
			if err != nil {
				faults = append(faults, m.Name+": "+err.Error())
				return
			}
			answers[m.ID] = a
		})
	}
	told.Wait()
	if len(faults) > 0 {
		slices.Sort(faults)
		return answers, errors.New(strings.Join(faults, "; "))
	}
	return answers, nil
}

// persuade tries m a few times. One that does not see the same members as this node is given time: gossip needs some
// seconds to agree on who has gone, and a member that this node does not see would be left out.
func (l *lead) persuade(ctx context.Context, m Member, msg message) (answer, error) {
	begun := time.Now()
	for try := 1; ; try++ {
		a, err := l.r.tell(ctx, m, msg, nil)
		if err == nil {
			err = a.fault()
		} else if ctx.Err() == nil && !permanent(err) {
			err = fmt.Errorf("it cannot be reached, and gossip holds it for alive: stop its viiwork or mend its network, and try again (%w)", err)
			if !l.lives(m) {
				return a, errGone
			}
			// Once the new secret is used somewhere it is worth the time in which gossip notices a death.
			again := try < attempts || msg.Step == stageUse && time.Since(begun) < attempts*l.r.cfg.Patience
			if again && pause(ctx, between) {
				continue
			}
		}
		if err != nil {
			return a, err
		}
		if msg.Step != stageAccept || a.View == viewOf(l.r.cfg.ID, l.r.alive()) {
			return a, nil
		}
		if time.Since(begun) > attempts*l.r.cfg.Patience || !pause(ctx, between) {
			return a, errors.New("it does not see the same living members as this node: try again when 'viiwork status --mesh' shows the same on both")
		}
	}
}

// errGone is a member that gossip has lost meanwhile: it is away, or has what it accepted and asks when it is back.
var errGone = errors.New("it has gone meanwhile")

func (l *lead) lives(m Member) bool {
	return slices.ContainsFunc(l.r.alive(), func(other Member) bool { return other.ID == m.ID })
}

// permanent reports whether trying again cannot help.
func permanent(err error) bool {
	var refused *secretRefusal
	return errors.As(err, &refused) || errors.Is(err, ErrForgedAnswer)
}

// fault words why a member does not go along.
func (a answer) fault() error {
	switch a.Why {
	case "":
		if a.OK {
			return nil
		}
	case whyOther:
		return fmt.Errorf("%s replaces the secret at this moment, and its secret counts: get the code there with 'viiwork join-code'", a.ByName)
	case whySettling:
		return fmt.Errorf("its last replacement is not over: try again in %s", (time.Duration(a.WaitMS) * time.Millisecond).Round(time.Second))
	case whyOlder:
		return errors.New("it has a newer secret: try again")
	case whyHand:
		return errors.New("its configuration gives two secrets: finish by hand, and unset the variable of mesh.secret_prev_env there")
	case whySeal:
		return errors.New("it has another old secret and cannot read the new one: give it this node's join code")
	case whyDisk:
		return errors.New("it cannot write its secret: its log says why")
	case whyGossip:
		return errors.New("its gossip does not take the key: its log says why")
	}
	return fmt.Errorf("it does not go along (%.40q): its secret was changed meanwhile: try again", a.Why)
}

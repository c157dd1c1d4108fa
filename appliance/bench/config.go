package bench

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Config says what to ask of whom.
type Config struct {
	Entries  []string // base addresses such as http://10.0.0.4:8086, as ParseEntry makes them
	SkipDead bool     // entries that do not answer are left out; else they are an error
	Model    string   // "" = the only one there is
	Sessions int      // agents at one time
	Turns    int      // of each agent; 0 = any number
	Duration time.Duration
	Single   bool    // all turns come in by the first entry; else each by one of them, at random
	Headers  string  // which agents name their sessions: all, half or none
	Scale    float64 // of all token counts; 0 = 1, or as much as fits the model's context
	Think    float64 // of the times to think
	Seed     uint64  // of the work; the text is new each time

	Begun func(Report) // nil = nobody wants to know; called once, before the first turn, with what there will be
	Ended func(Turn)   // nil = nobody wants to know
}

// Bounds of what can be measured.
const (
	maxSessions = 1000
	maxEntries  = 256
	maxDuration = 24 * time.Hour
	maxFactor   = 10.0
	maxTurns    = 200_000 // of a whole run: it ends there
)

// Headers are what Config.Headers may be.
func Headers() []string { return []string{"all", "half", "none"} }

// Validate says what of it cannot be.
func (c Config) Validate() error {
	switch {
	case c.Sessions < 1 || c.Sessions > maxSessions:
		return fmt.Errorf("%d sessions cannot be played: give 1 to %d", c.Sessions, maxSessions)
	case c.Turns < 0 || c.Turns > maxTurns:
		return fmt.Errorf("%d turns cannot be played: give 1 to %d", c.Turns, maxTurns)
	case c.Duration < 0 || c.Duration > maxDuration:
		return fmt.Errorf("a duration of %v cannot be: give one up to %v", c.Duration, maxDuration)
	case c.Turns == 0 && c.Duration == 0:
		return errors.New("it would never end: give a number of turns or a duration")
	case !slices.Contains(Headers(), c.Headers):
		return fmt.Errorf("headers are all, half or none, not %q", c.Headers)
	case !(c.Scale >= 0 && c.Scale <= maxFactor):
		return fmt.Errorf("a scale of %v cannot be: give one up to %v", c.Scale, maxFactor)
	case !(c.Think >= 0 && c.Think <= maxFactor):
		return fmt.Errorf("thinking %v times as long cannot be: give 0 to %v", c.Think, maxFactor)
	case len(c.Entries) > maxEntries:
		return fmt.Errorf("%d entries are too many: give up to %d", len(c.Entries), maxEntries)
	}
	return nil
}

// ParseEntry makes an address of what a person writes: http://attic:8086, attic:8086, http://attic:8086/v1/.
func ParseEntry(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is no entry: give addresses such as http://attic:8086", text)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is no entry: it must begin with http:// or https://", text)
	}
	if path := strings.TrimSuffix(u.Path, "/"); path != "" && path != "/v1" {
		return "", fmt.Errorf("%q is no entry: leave the path out", text)
	}
	return u.Scheme + "://" + u.Host, nil
}

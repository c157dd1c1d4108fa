package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Window is when something may be begun: on some days of the week, from one time of day to another, local time. The zero
// value is always open.
type Window struct {
	days     [7]bool // by time.Weekday, of the beginning
	from, to time.Duration
	set      bool
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseWindow reads "02:00-05:00", "Sat-Sun 02:00-05:00" or "Mon,Wed 23:00-01:00"; "" is always open. One that goes over
// midnight belongs to the day on which it begins.
func ParseWindow(text string) (w Window, err error) {
	if text == "" {
		return Window{}, nil
	}
	fault := fmt.Errorf("%s is no time of day: write it as 02:00-05:00, or with days as Sat-Sun 02:00-05:00", quote(text))
	days, hours, named := strings.Cut(text, " ")
	if !named {
		days, hours = "sun-sat", text
	}
	from, to, ok := strings.Cut(hours, "-")
	start, err1 := time.Parse("15:04", from)
	end, err2 := time.Parse("15:04", to)
	if !ok || err1 != nil || err2 != nil || from == to || len(text) > 80 {
		return Window{}, fault
	}
	midnight, _ := time.Parse("15:04", "00:00")
	w = Window{from: start.Sub(midnight), to: end.Sub(midnight), set: true}
	for _, span := range strings.Split(days, ",") {
		first, last, several := strings.Cut(strings.ToLower(span), "-")
		if !several {
			last = first
		}
		i, j := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if i < 0 || j < 0 {
			return Window{}, fault
		}
		for w.days[i] = true; i != j; w.days[i] = true {
			i = (i + 1) % 7
		}
	}
	return w, nil
}

// Open tells whether t lies in it, by t's own location.
func (w Window) Open(t time.Time) bool {
	if !w.set {
		return true
	}
	at := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second
	today := w.days[t.Weekday()]
	if w.from < w.to {
		return today && at >= w.from && at < w.to
	}
	return today && at >= w.from || w.days[(t.Weekday()+6)%7] && at < w.to
}

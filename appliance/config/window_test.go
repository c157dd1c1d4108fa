package config_test

import (
	"testing"
	"time"

	"viiwork/appliance/config"
)

func TestWindowIsOpenOnItsDaysAndHours(t *testing.T) {
	for _, c := range []struct {
		window    string
		open, not []string // days of a week whose first is a Monday
	}{
		{"", []string{"1 00:00", "7 23:59"}, nil},
		{"02:00-05:00", []string{"1 02:00", "4 04:59", "7 03:00"}, []string{"1 01:59", "1 05:00", "7 23:00"}},
		{"23:00-01:00", []string{"1 23:00", "2 00:59", "1 00:30"}, []string{"1 22:59", "1 01:00"}},
		{"Sat-Sun 02:00-05:00", []string{"6 02:00", "7 04:59"}, []string{"5 03:00", "1 03:00"}},
		{"sat-sun 23:00-04:00", []string{"6 23:00", "7 03:59", "7 23:30", "1 03:00"}, []string{"6 03:00", "1 23:30"}},
		{"Fri-Mon 02:00-05:00", []string{"5 03:00", "7 03:00", "1 03:00"}, []string{"2 03:00", "4 03:00"}},
		{"Mon,Wed 02:00-05:00", []string{"1 03:00", "3 03:00"}, []string{"2 03:00"}},
	} {
		w, err := config.ParseWindow(c.window)
		if err != nil {
			t.Error(err)
		}
		for i, times := range [][]string{c.open, c.not} {
			for _, at := range times {
				moment, err := time.Parse("2006-01-2 15:04", "2026-06-"+at) // the first is a Monday
				if err != nil {
					t.Fatal(err)
				}
				if w.Open(moment) != (i == 0) {
					t.Errorf("%q at %s: %v", c.window, at, w.Open(moment))
				}
			}
		}
	}
}

func TestWindowThatIsNone(t *testing.T) {
	for _, text := range []string{"night", "02:00", "02:00-25:00", "02:00-02:00", "Sam 02:00-05:00", "Sat- 02:00-05:00", "Sat,, 02:00-05:00", "Sat", " 02:00-05:00", "Sat  02:00-05:00"} {
		if _, err := config.ParseWindow(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

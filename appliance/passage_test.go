package appliance_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"viiwork/appliance"
)

// FuzzWordOfTheRunBefore: whatever lies in the file, a run that starts believes nothing that none can have left.
func FuzzWordOfTheRunBefore(f *testing.F) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339) }
	word := func(since, closed, ended string) string {
		return fmt.Sprintf(`{"version":"v1","models":["m"],"requests":2,"since":%q,"closed":%q,"ended":%q}`, since, closed, ended)
	}
	good := word(at(3*time.Second), at(2*time.Second), at(time.Second))
	if models := appliance.ReadWord([]byte(good), now); len(models) != 1 || models[0] != "m" {
		f.Errorf("the word of a run is read as %v", models)
	}
	for name, text := range map[string]string{
		"old":             word(at(time.Hour), at(time.Hour), at(time.Hour)),
		"of the future":   word(at(3*time.Second), at(2*time.Second), at(-time.Minute)),
		"ended too early": word(at(time.Second), at(time.Second), at(3*time.Second)),
		"long":            strings.Replace(good, `"m"`, strings.TrimSuffix(strings.Repeat(`"m",`, 2000), ","), 1),
		"no JSON":         good[1:],
		"nothing":         "",
	} {
		if models := appliance.ReadWord([]byte(text), now); models != nil {
			f.Errorf("%s: it is believed: %v", name, models)
		}
		f.Add([]byte(text))
	}
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, data []byte) {
		if models := appliance.ReadWord(data, now); len(models) > 1000 {
			t.Errorf("%d models", len(models))
		}
	})
}

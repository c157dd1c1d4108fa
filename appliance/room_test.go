package appliance_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance"
	"viiwork/engine"
)

// TestRoomForASecondEngineIsWhatTheMachineTells: cards and RAM as they are at that moment count beside the plan, and what a
// driver or a kernel does not tell is no room.
func TestRoomForASecondEngineIsWhatTheMachineTells(t *testing.T) {
	const free = "MemTotal:        8388608 kB\nMemAvailable:    7000000 kB\n"
	for name, c := range map[string]struct {
		used    string // of the card; "" = not told
		meminfo string
		more    string // of the model
		says    string // "" = there is room
	}{
		"room":              {"20000000", free, "", ""},
		"a full card":       {"600000000", free, "", "of card 0"},
		"a card not told":   {"", free, "", "card 0 is free is not known"},
		"no RAM":            {"20000000", "MemTotal:        8388608 kB\nMemAvailable:    1100000 kB\n", "", "of RAM"},
		"RAM not told":      {"20000000", "MemTotal:        8388608 kB\n", "", "memory is free is not known"},
		"placed by hand":    {"20000000", free, `args: [-ngl, "1"], `, "what it takes is not known"},
		"too large for two": {"20000000", free, "context: 120000, ", "of card 0"},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := smallCards(t, 1), t.TempDir()
			modelAt(t, filepath.Join(dir, "m.gguf"))
			files := map[string]string{"proc/meminfo": c.meminfo}
			if c.used != "" {
				files["sys/class/drm/card0/device/mem_info_vram_used"] = c.used + "\n"
			}
			for path, text := range files {
				if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cfg := configured(t, dir, fmt.Sprintf("  - {name: m, path: m.gguf, gpus: [0], parallel: 1, %sllamacpp: {image: rocm, prompt_cache: 256MiB}}\n", c.more))
			a, err := appliance.New(cfg, appliance.Options{Version: "test", HostRoot: root, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			err = a.Room(t.Context(), engine.Model{Name: "m"}, []int{0})
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

package config_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"viiwork/appliance/config"
)

func FuzzParse(f *testing.F) {
	for _, tc := range broken {
		if len(tc.text) < 1<<16 {
			f.Add([]byte(tc.text))
		}
	}
	for _, path := range []string{"testdata/sample.yaml", "../../docs/viiwork.example.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(strings.Repeat("[", 5000)))
	f.Add([]byte(strings.Repeat("{a: ", 5000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("v.yaml", data, []string{"VIIWORK_MESH_OPEN=true"})
		var faults config.Faults
		switch {
		case err == nil && c == nil:
			t.Fatal("neither a configuration nor an error")
		case err != nil && !errors.As(err, &faults):
			t.Fatalf("not a list of faults: %v", err)
		case err == nil:
			c.Show()
			c.CheckFiles()
			for _, m := range c.Models {
				m.Backends()
			}
		}
		for _, fault := range faults {
			if fault.Message == "" || fault.Line == 0 && !strings.HasPrefix(fault.File, "env ") || len(fault.Error()) > 4000 {
				t.Errorf("fault without place or measure: %+v", fault)
			}
			if strings.ContainsAny(fault.Error(), "\n\r\x00\x1b") {
				t.Errorf("fault of more than one line: %q", fault.Error())
			}
		}
	})
}

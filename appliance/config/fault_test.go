package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"viiwork/appliance/config"
)

func TestEveryFaultHasItsPlaceAndAWayOut(t *testing.T) {
	for _, tc := range broken {
		t.Run(tc.name, func(t *testing.T) {
			environ := append([]string{"VIIWORK_MESH_OPEN=true"}, tc.environ...)
			c, err := config.Parse("v.yaml", []byte(tc.text), environ)
			var faults config.Faults
			if !errors.As(err, &faults) || c != nil {
				t.Fatalf("accepted, or refused without faults: %v", err)
			}
			report := strings.ReplaceAll(err.Error(), "v.yaml:", "")
			places := 0
			for _, want := range tc.want {
				text := want
				if startsWithPlace(want) {
					places++
					text = "\n" + want
				}
				if !strings.Contains("\n"+report, text) {
					t.Errorf("want %q in\n%s", want, report)
				}
			}
			if places > 0 && len(faults) != places {
				t.Errorf("want %d faults, got\n%s", places, report)
			}
		})
	}
}

func startsWithPlace(s string) bool {
	return s[0] >= '0' && s[0] <= '9' || strings.HasPrefix(s, "env ")
}

func TestAllFaultsAreReportedAtOnceInOrder(t *testing.T) {
	text := `node:
  name: Attic
  drain: 30
api: {port: 99999, host: x}
routing:
  polcy: cost
models:
  - name: a
    gpus: [0, 0]
  - name: a
    path: /b
    gpus: [0]
`
	_, err := config.Parse("v.yaml", []byte(text), []string{"VIIWORK_MESH_OPEN=true", "VIIWORK_LOG_LEVEL=loud"})
	var got []string
	for line := range strings.Lines(err.Error()) {
		got = append(got, strings.Join(strings.SplitN(line, ": ", 3)[:2], " "))
	}
	want := []string{
		"v.yaml:2:9 node.name", "v.yaml:3:10 node.drain", "v.yaml:4:13 api.port", "v.yaml:4:26 api.host",
		"v.yaml:6:3 routing.polcy", "v.yaml:8:5 models[0].path", "v.yaml:9:15 models[0].gpus[1]",
		"v.yaml:10:11 models[1].name", "v.yaml:12:12 models[1].gpus[0]", "env VIIWORK_LOG_LEVEL log.level",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFaultsAreBounded(t *testing.T) {
	_, err := config.Parse("v.yaml", []byte(strings.Repeat("x:\n", 100_000)), nil)
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) > 100 {
		t.Errorf("got %d faults", len(faults))
	}
}

func TestMeshIsOpenOrSecured(t *testing.T) {
	const variable = "VIIWORK_MESH_SECRET"
	for _, tc := range []struct {
		name, text string
		environ    []string
		refused    bool
		say        string
	}{
		{"neither", "", nil, true, variable},
		{"neither, empty variable", "", []string{variable + "="}, true, variable + "_FILE"},
		{"neither, own variable", "mesh: {secret_env: HOUSE_KEY}", secured, true, "HOUSE_KEY"},
		{"both", "mesh: {open: true}", secured, true, variable},
		{"both by file", "mesh: {open: true}", []string{variable + "_FILE=/nowhere"}, false, variable + "_FILE"}, // the file is missing, too
		{"open", "mesh: {open: true}", nil, false, ""},
		{"secured", "", secured, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := config.Parse("v.yaml", []byte(tc.text), tc.environ)
			if got := errors.Is(err, config.ErrMeshMode); got != tc.refused {
				t.Errorf("refused by policy: %v, want %v (%v)", got, tc.refused, err)
			}
			if tc.say == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.say) {
				t.Errorf("want %q in: %v", tc.say, err)
			}
			if c == nil {
				t.Error("a command that needs no secret got no configuration")
			}
		})
	}
}

func TestASlipInTheFileComesBeforeTheMeshRefusal(t *testing.T) {
	c, err := config.Parse("v.yaml", []byte("log: {level: loud}\n"), nil)
	if errors.Is(err, config.ErrMeshMode) || c != nil {
		t.Error("a broken file counts as a refusal by policy")
	}
	if !strings.Contains(err.Error(), "VIIWORK_MESH_SECRET") || !strings.Contains(err.Error(), "log.level") {
		t.Errorf("not everything is reported: %v", err)
	}
}

func TestUnusableSecretIsAFaultThatDoesNotShowIt(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ environ, want string }{
		{"VIIWORK_MESH_SECRET=hunter2hunter2!", "does not hold base64"},
		{"VIIWORK_MESH_SECRET=aHVudGVyMg==", "holds 7 bytes, not 32"},
		{"VIIWORK_MESH_SECRET_FILE=" + filepath.Join(dir, "none"), "no such file"},
		{"VIIWORK_MESH_SECRET_FILE=" + dir, "is not a file"},
		{"VIIWORK_MESH_SECRET_PREV=aHVudGVyMg==", "VIIWORK_MESH_SECRET_PREV holds 7 bytes"},
	} {
		c, err := config.Parse("v.yaml", nil, []string{tc.environ})
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVu") {
			t.Errorf("%s: got %v", tc.environ, err)
		}
		if c == nil {
			t.Errorf("%s: no configuration for commands that need no secret", tc.environ)
		}
	}
	_, err := config.Parse("v.yaml", nil, append(secured, "VIIWORK_MESH_SECRET_FILE=/x"))
	if err == nil || !strings.Contains(err.Error(), "both set: unset one") {
		t.Errorf("secret twice: %v", err)
	}
	// The secret itself where its variable's name belongs.
	_, err = config.Parse("v.yaml", []byte("mesh: {secret_env: \""+secretWord+"\", tailnet: {auth_key: [tskey-x]}}"), nil)
	if err == nil || strings.Contains(err.Error(), secretWord) || strings.Contains(err.Error(), "tskey") {
		t.Errorf("the error shows a secret: %v", err)
	}
}

func TestSecretFileThatIsNoRegularFileDoesNotBlock(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("no /dev/zero here")
	}
	if _, err := config.Parse("v.yaml", nil, []string{"VIIWORK_MESH_SECRET_FILE=/dev/zero"}); err == nil {
		t.Error("accepted a device")
	}
}

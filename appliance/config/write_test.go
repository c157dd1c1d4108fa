package config_test

import (
	"strings"
	"testing"
	"time"

	"viiwork/appliance/config"
)

// TestWrittenFileReadsTheSame: every value of the example survives being written and read again.
func TestWrittenFileReadsTheSame(t *testing.T) {
	for _, name := range []string{"testdata/sample.yaml", "../../docs/viiwork.example.yaml"} {
		was, err := config.Load(name, secured)
		if err != nil {
			t.Fatal(err)
		}
		text := was.Text("a head\nof two lines")
		is, err := config.Parse("viiwork.yaml", text, secured)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if models, restart := config.Changes(was, is); models || len(restart) > 0 {
			t.Errorf("models differ: %v, sections %v in\n%s", models, restart, text)
		}
	}
}

func TestWrittenFileSaysOnlyWhatWasChosen(t *testing.T) {
	c := config.Default()
	c.Node.Name, c.Mesh.Open, c.Mesh.Tailnet.AuthKey = "attic", true, "tskey-very-secret"
	c.Models = []config.Model{
		{Name: "12:30", Path: "/srv/models/a b.gguf", GPUs: []int{0}, Context: 4096, StartupTimeout: 45 * time.Minute, Llamacpp: config.Llamacpp{Runner: "native"}},
		{Name: "far", Llamacpp: config.Llamacpp{Runner: "external", URL: "http://127.0.0.1:9000"}},
	}
	c.Say("api.local")
	want := `# head

node:
  name: attic                      # unique in the mesh
  state_dir: /var/lib/viiwork      # sockets, slot files, records of running engines

api:
  local: ""                        # for programs on this machine

mesh:
  network: tailnet                 # tailnet | lan
  open: true                       # no secret: whoever reaches this node may join

models_dir: /srv/models            # relative paths below start here

models:
  - name: "12:30"
    path: "a b.gguf"
    gpus: [0]
    context: 4096                  # tokens per slot
    parallel: 1                    # slots per backend
    startup_timeout: 45m           # loading longer than this is given up
    llamacpp:
      runner: native
  - name: far
    parallel: 1                    # slots per backend
    llamacpp:
      runner: external
      url: "http://127.0.0.1:9000"
`
	text := string(c.Text("head"))
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if strings.Contains(text, "tskey") {
		t.Error("a key is in the file")
	}
}

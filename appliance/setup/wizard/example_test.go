package wizard_test

import (
	"os"
	"strings"
	"testing"

	"viiwork/appliance/setup/wizard"
)

// TestTheExampleIsRead: what docs show is what is understood.
func TestTheExampleIsRead(t *testing.T) {
	text, err := os.ReadFile("../../../docs/viiwork.answers.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.Replace(string(text), "  join_file: /root/join-code", "  start: secured", 1)
	if _, err := wizard.ParseAnswers("example", []byte(plain)); err != nil {
		t.Error(err)
	}
	for key := range strings.FieldsSeq("name: state_dir: port: host: local: models_dir: file: gpus: gpus_per_backend: context: parallel: args: runner: image: binary: join_file: join: start: network: bind_port: seeds: mdns: hostname: auth_key: control_url: tags: service:") {
		if !strings.Contains(string(text), key) {
			t.Errorf("the example lacks %s", key)
		}
	}
}

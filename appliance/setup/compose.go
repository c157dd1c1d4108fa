package setup

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// compose is the node as a container. Its engines run beside it, so what it tells Docker must be true on the machine: the
// state directory and the models have one path on both sides, and the network is the machine's.
func (m Machine) compose(l Layout, a Answers) []byte {
	cfg := a.Config
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	// why sets a remark beside a line, where lines are short enough.
	why := func(remark, format string, args ...any) {
		fmt.Fprintf(&out, "%-38s # %s\n", fmt.Sprintf(format, args...), remark)
	}
	say("# %s: one node in a container, its engines in containers beside it.", marker)
	say("#   docker compose -f %s up -d", l.Service)
	say("name: viiwork")
	say("services:")
	say("  viiwork:")
	say("    image: %s", quoted(a.Image))
	say("    container_name: viiwork")
	say("    restart: unless-stopped")
	why("longer than node.drain: streams are finished, not cut", "    stop_grace_period: %ds", int((cfg.Node.Drain + stopSlack).Seconds()))
	why("engines answer on 127.0.0.1 of this machine", "    network_mode: host")
	why("engines run as the same", "    user: \"%d:%d\"", m.UID, m.GID)
	why("of Docker's socket, which is as good as root on this machine", "    group_add: [\"%d\"]", m.DockerGID)
	say("    read_only: true")
	say("    cap_drop: [ALL]")
	say("    security_opt: [\"no-new-privileges:true\"]")
	say("    environment:")
	say("      VIIWORK_CONFIG: %s", quoted(l.Config))
	if len(environment(a)) > 0 {
		say("    env_file: [%s]", quoted(l.Env))
	}
	if m.AMD {
		why("the node reads which groups own the cards", "    devices: [/dev/kfd, /dev/dri]")
	}
	why("node.state_dir and models_dir have the same path on both sides", "    volumes:")
	say("      - %s", bind(filepath.Dir(l.Config), true)) // the folder: an edited file is another file by the same name
	say("      - %s", bind("/var/run/docker.sock", false))
	say("      - %s", bind(cfg.Node.StateDir, false))
	say("      - %s", bind(cfg.ModelsDir, true))
	say("    tmpfs: [/tmp]")
	return []byte(out.String())
}

// bind is a folder of the machine under its own path. The long form: a path may hold a colon.
func bind(path string, readOnly bool) string {
	tail := ""
	if readOnly {
		tail = ", read_only: true"
	}
	return fmt.Sprintf("{type: bind, source: %s, target: %s%s}", quoted(path), quoted(path), tail)
}

// quoted is a YAML string that Compose does not expand: a JSON string is one, a doubled dollar is a plain one.
func quoted(s string) string {
	text, _ := json.Marshal(strings.ReplaceAll(s, "$", "$$")) // a string always can be
	return string(text)
}

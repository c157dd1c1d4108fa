package setup

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"viiwork/appliance/config"
)

// watchdog is how long the node may not answer itself before systemd takes it for dead. A machine that swaps while a model
// loads is slow and must not be.
const watchdog = 60 * time.Second

// stopSlack is what a stop takes beside the drain: the goodbye to the mesh, and the last error events.
const stopSlack = 30 * time.Second

// keptListeners is room for what a node listens on, and for what it did before an edit. systemd tells the node that there
// is room only from version 254 on; the variable is that word, said for the older ones.
const keptListeners = 4

// unit is the service for systemd.
func (m Machine) unit(l Layout, cfg config.Config) []byte {
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	say("# %s. An edit of yours belongs in 'systemctl edit viiwork', which an update leaves alone.", marker)
	say("[Unit]")
	say("Description=viiwork: the models of this machine, and those of its mesh")
	if !m.User {
		say("Wants=network-online.target")
		say("After=network-online.target docker.service")
	}
	say("# Restarted for ever: a machine nobody looks after must come back by itself.")
	say("StartLimitIntervalSec=0")
	say("")
	say("[Service]")
	say("Type=notify")
	say("NotifyAccess=main")
	say("# A new version that does not come up is taken back by the one before; see docs/updates.md.")
	say("ExecStartPre=%s update boot --config %s", execWord("-"+l.Judge()), execWord(l.Config))
	say("ExecStart=%s serve --config %s", execWord(l.Program()), execWord(l.Config))
	say("ExecReload=/bin/kill -HUP $MAINPID")
	say("EnvironmentFile=-%s", unitPath(l.Env))
	say("# It is fed as long as the node answers itself.")
	say("WatchdogSec=%d", int(watchdog.Seconds()))
	say("Restart=always")
	say("RestartSec=500ms")
	say("# Listeners stay open while the node starts anew: who connects then waits and is not refused. A stop closes them.")
	say("FileDescriptorStoreMax=%d", keptListeners)
	say("Environment=FDSTORE=%d", keptListeners)
	say("# A wrong command line or a refusal (no secret, a name that is taken) is not mended by starting again.")
	say("RestartPreventExitStatus=2 4")
	say("# Engines that run as programs live on; the next start adopts them without loading a model again.")
	say("KillMode=process")
	say("OOMPolicy=continue")
	say("TimeoutStopSec=%d", int((cfg.Node.Drain + stopSlack).Seconds()))
	say("LimitNOFILE=65536")
	say("LimitMEMLOCK=infinity")
	say("# A crash, or the watchdog's abort, ends in a signal then, and not in Go's own exit code 2, which is not restarted.")
	say("Environment=GOTRACEBACK=crash")
	say("# What a crash would write to disk holds prompts and keys.")
	say("LimitCORE=0")
	say("UMask=0077")
	say("")
	say("NoNewPrivileges=yes")
	if !m.User {
		m.harden(say, l, cfg)
	}
	say("")
	say("[Install]")
	if m.User {
		say("WantedBy=default.target")
	} else {
		say("WantedBy=multi-user.target")
	}
	return []byte(out.String())
}

// harden takes away what no node and no engine needs. Devices and capabilities stay: drivers of cards want some of them,
// and whoever may use Docker's socket is root on the machine anyway. So does /tmp, where a private one would be emptied
// under engines that live on. ProtectClock would close the devices as well.
func (m Machine) harden(say func(string, ...any), l Layout, cfg config.Config) {
	if cfg.Node.StateDir == "/var/lib/viiwork" {
		say("StateDirectory=viiwork")
		say("StateDirectoryMode=0700")
	} else {
		say("ReadWritePaths=%s", unitWord(filepath.Clean(cfg.Node.StateDir))) // systemd passes by what has .. in it
	}
	say("RuntimeDirectory=viiwork")
	say("RuntimeDirectoryPreserve=yes")
	say("# Where engines find a home for what they compile.")
	say("Environment=%s", unitWord("HOME="+cfg.Node.StateDir))
	say("ProtectSystem=strict")
	say("ReadWritePaths=-%s", unitPath(l.Prefix))
	if models := filepath.Clean(cfg.ModelsDir); models != "/" { // which would open the whole system
		say("# Where 'viiwork models pull' puts copies.")
		say("ReadWritePaths=%s", unitWord("-"+models))
	}
	for _, line := range []string{
		"ProtectHome=read-only", "ProtectHostname=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes",
		"RestrictSUIDSGID=yes", "RestrictRealtime=yes", "RestrictNamespaces=yes", "LockPersonality=yes",
		"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK", "SystemCallArchitectures=native",
	} {
		say("%s", line)
	}
}

// execWord is one word of a command line, in which systemd also expands variables.
func execWord(s string) string { return unitWord(strings.ReplaceAll(s, "$", "$$")) }

// unitWord is one word among others: quoted where there are blanks.
func unitWord(s string) string {
	s = unitPath(s)
	if strings.ContainsAny(s, " \t\"'\\;") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return s
}

// unitPath is a value that is one path, in which quotes would be taken as part of it.
func unitPath(s string) string { return strings.ReplaceAll(s, "%", "%%") }

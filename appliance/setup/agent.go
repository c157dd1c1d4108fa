package setup

import (
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

// AgentLabel is the name by which launchd knows the node.
const AgentLabel = "viiwork"

// agent is the node as an agent of launchd. AbandonProcessGroup leaves its engines running when it ends, as they do
// elsewhere; launchd takes a refusal (exit 4) for a failure as well and starts it again after ThrottleInterval.
func (m Machine) agent(l Layout) []byte {
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	say(`<?xml version="1.0" encoding="UTF-8"?>`)
	say("<!-- %s. -->", marker)
	say(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">`)
	say(`<plist version="1.0">`)
	say("<dict>")
	text := func(key, value string) {
		say("  <key>%s</key>", key)
		say("  <string>%s</string>", xmlText(value))
	}
	truth := func(key string) {
		say("  <key>%s</key>", key)
		say("  <true/>")
	}
	text("Label", AgentLabel)
	say("  <key>ProgramArguments</key>")
	say("  <array>")
	for _, arg := range []string{l.Program(), "serve", "--config", l.Config} {
		say("    <string>%s</string>", xmlText(arg))
	}
	say("  </array>")
	truth("RunAtLoad")
	truth("KeepAlive")
	truth("AbandonProcessGroup")
	say("  <key>ThrottleInterval</key>")
	say("  <integer>10</integer>")
	text("ProcessType", "Interactive") // Background would be slowed down by the system
	text("StandardOutPath", m.agentLog())
	text("StandardErrorPath", m.agentLog())
	say("</dict>")
	say("</plist>")
	return []byte(out.String())
}

func (m Machine) agentLog() string { return filepath.Join(m.Home, "Library/Logs/viiwork.log") }

func xmlText(s string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(s)) // a Builder takes everything
	return out.String()
}

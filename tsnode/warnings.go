package tsnode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscale.com/ipn/ipnstate"
)

const (
	// lostAfter is how long the control server may be out of reach before the owner hears of it: a restart of it, or of
	// the way to it, is over by then.
	lostAfter = 30 * time.Second
	// expiryNotice is how long before the device's key expires the owner is told.
	expiryNotice = 7 * 24 * time.Hour
)

// warnings is what is wrong with the device, most urgent first.
func (w *watch) warnings(s *ipnstate.Status, status Status, now time.Time) (all []Warning) {
	add := func(id, text, fix string) { all = append(all, Warning{ID: id, Text: text, Fix: fix}) }
	switch status.State {
	case StateNeedsLogin:
		text, fix := "this device is not logged in to the tailnet", "open the login address (login_url)"
		if status.LoginURL == "" {
			fix = "the login address is being fetched; or set mesh.tailnet.auth_key and restart"
		}
		switch {
		case expired(s, now):
			add("tailnet-key-expired", "this device's key has expired: no traffic passes until it is renewed",
				fix+", or extend the key in the tailnet's admin console")
		case w.wasUp:
			add("tailnet-logged-out", "this device was logged out of the tailnet: no traffic passes", fix)
		default:
			add("tailnet-login", text, fix)
		}
	case StateNeedsApproval:
		add("tailnet-approval", "this device waits for approval", "approve it in the tailnet's admin console")
	case StateStopped:
		add("tailnet-stopped", "this device is switched off", "restart the node")
	case StateUp:
		if at := s.Self.KeyExpiry; at != nil && at.Sub(now) < expiryNotice {
			add("tailnet-key-expiring", "this device's key expires at "+at.UTC().Format(time.RFC3339),
				"tag the device, switch key expiry off in the admin console, or log in again before")
		}
		if name := firstLabel(s.Self.DNSName); name != "" && name != w.cfg.Hostname {
			add("tailnet-name", fmt.Sprintf("the tailnet calls this device %s, not %s: another device has that name", name, w.cfg.Hostname),
				"remove the old device in the admin console, or set mesh.tailnet.hostname")
		}
	}
	if w.controlLost(s, status, now) {
		text := "the control server does not answer: known peers stay reachable, new ones are not seen"
		fix := "check the way to " + controlName(w.cfg.ControlURL)
		if !w.wasUp {
			text = "the control server does not answer: this device is on no tailnet yet and serves its own machine only"
			if w.cfg.ControlURL != "" {
				fix = "check mesh.tailnet.control_url and the way to " + w.cfg.ControlURL
			}
		}
		add("tailnet-control", text, fix+"; this heals by itself once it answers")
	}
	if w.failed != nil {
		all = append(all, warnRefused(*w.failed))
	}
	return append(all, w.relayWarnings(s, now)...)
}

// relayedFor is how long traffic may go by a relay before the owner hears of it: every connection begins there.
const relayedFor = 2 * time.Minute

// noteRelay keeps since when a peer that is spoken with is reached by a relay only.
func (w *watch) noteRelay(p *ipnstate.PeerStatus, now time.Time) {
	id := string(p.ID)
	switch _, known := w.relayed[id]; {
	case !p.Active || !p.Online || p.CurAddr != "" || p.Relay == "":
		delete(w.relayed, id)
	case !known && len(w.relayed) < maxSightings:
		w.relayed[id] = now
	}
}

// relayWarnings names the peers that are reached by a relay only.
func (w *watch) relayWarnings(s *ipnstate.Status, now time.Time) (all []Warning) {
	var names []string
	for _, p := range s.Peer {
		if since, relayed := w.relayed[string(p.ID)]; relayed && now.Sub(since) >= relayedFor {
			names = append(names, firstLabel(p.DNSName))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []Warning{{ID: "tailnet-relayed", Text: "traffic with " + strings.Join(names, ", ") + " goes by a relay, which is slow",
		Fix: "let UDP out of both machines' networks, and one of them in (port 41641, or any that tailscale's docs name)"}}
}

// expired reports whether the device's key is past its time.
func expired(s *ipnstate.Status, now time.Time) bool {
	return s.Self != nil && (s.Self.Expired || s.Self.KeyExpiry != nil && s.Self.KeyExpiry.Before(now))
}

// controlLost reports whether the control server has been out of reach for too long: an up device that is no longer told
// of changes, or one that never got an answer.
func (w *watch) controlLost(s *ipnstate.Status, status Status, now time.Time) bool {
	switch {
	case status.State == StateStarting:
		return now.Sub(w.begun) > lostAfter
	case status.State != StateUp || s.Self.Online:
		w.lost = time.Time{}
		return false
	case w.lost.IsZero():
		w.lost = now
	}
	return now.Sub(w.lost) > lostAfter
}

func warnRefused(f failure) Warning {
	return Warning{
		ID:   "tailnet-refused",
		Text: "this device cannot join the tailnet: " + f.text,
		Fix:  "give a valid key (mesh.tailnet.auth_key or TS_AUTHKEY) and check mesh.tailnet.control_url; it is tried again by itself",
	}
}

// controlName is how the control server is called in a message.
func controlName(url string) string {
	if url == "" {
		return "Tailscale's control server"
	}
	return url
}

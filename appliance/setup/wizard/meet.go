package wizard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"viiwork/appliance/config"
	"viiwork/appliance/mesh"
	"viiwork/tsnode"
)

// askMesh asks which mesh this machine becomes a member of, with its own device on the network where that helps.
func (w *Wizard) askMesh(ctx context.Context) error {
	if w.a.Mesh.Join != "" || w.a.Mesh.JoinFile != "" || w.a.Mesh.Start != "" {
		return w.deviceFor(ctx)
	}
	q := Question{
		Title: "How does this machine come to its mesh?",
		Help:  "A join code comes from 'viiwork join-code' on any member.",
		Options: []string{
			"I have a join code",
			"By a tailnet: this machine becomes a device of its own there; look who is around",
			"By this LAN: look who is around",
		},
	}
	old := w.Sight.Config
	if old != nil {
		q.Options = append(q.Options, "It stays in the mesh that it is in")
		q.At = len(q.Options) - 1
	}
	at, err := w.Prompt.Choose(ctx, q)
	switch {
	case err != nil:
		return err
	case at == 0:
		if err := w.askCode(ctx); err != nil {
			return err
		}
		return w.deviceFor(ctx)
	case at == 3:
		w.a.Mesh.Start = startSecured
		if old.Mesh.Open {
			w.a.Mesh.Start = startOpen
		}
		return nil
	}
	w.a.Mesh.Network = []string{"", tsnode.Tailnet, tsnode.LAN}[at]
	if err := w.deviceFor(ctx); err != nil {
		return err
	}
	return w.askWhich(ctx)
}

// askAddress asks, on a LAN, where others reach this machine.
func (w *Wizard) askAddress(ctx context.Context) error {
	if w.Prompt == nil || w.a.API.Host != "" || w.Sight.Config != nil || w.a.places.IsSet("api.host") {
		return nil
	}
	const all = "all"
	host, err := w.Prompt.Ask(ctx, Question{
		Title: "At which address do other machines reach this one?", Help: "One of its IP addresses on the LAN, or all of them.", Text: all,
		Check: func(s string) error {
			if _, err := netip.ParseAddr(s); err != nil && s != all {
				return errors.New("write an IP address, or all")
			}
			return nil
		},
	})
	if host != all {
		w.a.API.Host = host
	}
	return err
}

func (w *Wizard) askCode(ctx context.Context) error {
	text, err := w.Prompt.Ask(ctx, Question{Title: "The join code", Help: "It is like a password: whoever has it can join.", Secret: true, Check: func(s string) error {
		_, err := mesh.ParseJoinCode(s)
		return err
	}})
	w.a.Mesh.Join = text
	return err
}

// askWhich asks whether to join those who are around, or to begin.
func (w *Wizard) askWhich(ctx context.Context) error {
	peers := w.peers(ctx)
	q := Question{Title: "Which mesh?", Options: []string{
		"Join one with a code",
		"Start a secured mesh: a secret is made here, and 'viiwork join-code' hands it on",
		"Start an open mesh: whoever reaches it may join and use it",
	}, At: 1}
	if len(peers) > 0 {
		q.At = 0
		q.Help = "Around here: " + strings.Join(peers, ", ") + ". To join them, take the code of one."
	}
	at, err := w.Prompt.Choose(ctx, q)
	if err != nil {
		return err
	}
	switch at {
	case 0:
		return w.askCode(ctx)
	case 1:
		w.a.Mesh.Start = startSecured
	default:
		w.a.Mesh.Start = startOpen
	}
	return nil
}

// heardWithin is how long nodes of a LAN are given to say that they are here.
const heardWithin = 3 * time.Second

// peers names the machines nearby that may be ours.
func (w *Wizard) peers(ctx context.Context) (names []string) {
	if w.device == nil {
		return nil
	}
	w.Prompt.Tell("Looking who is around …")
	select {
	case <-ctx.Done():
	case <-time.After(heardWithin):
	}
	for _, p := range w.device.Peers() {
		if p.Online && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// deviceFor brings the device up, if the answers so far need one that is not there.
func (w *Wizard) deviceFor(ctx context.Context) error {
	if w.Running || w.device != nil {
		return nil
	}
	d, err := draftModels(w.a, w.Sight)
	if err != nil {
		return err
	}
	code, err := w.a.Mesh.code()
	if err != nil {
		return err
	}
	d.join(w.a.Mesh, code, w.Sight)
	if d.Config.Mesh.Network == tsnode.LAN {
		if err := w.askAddress(ctx); err != nil {
			return err
		}
		d.Config.API.Host = cmp.Or(w.a.API.Host, d.Config.API.Host)
	}
	if w.DryRun {
		return nil
	}
	return w.comeUp(ctx, d.Config)
}

// keyWithin bounds the coming up of a device with a key: nobody has to do anything for it.
const keyWithin = 90 * time.Second

// comeUp brings this machine's device up in its final state directory. Without a key its owner has to log it in: the
// address is shown until that is done.
func (w *Wizard) comeUp(ctx context.Context, cfg config.Config) error {
	d, err := openDevice(tsnode.Config{
		Network: cfg.Mesh.Network, Name: cfg.Node.Name, StateDir: cfg.Node.StateDir,
		APIPort: cfg.API.Port, GossipPort: cfg.Mesh.BindPort, Seeds: cfg.Mesh.Seeds,
		Host: cfg.API.Host, MDNS: cfg.Mesh.LAN.MDNS, Mute: true,
		Hostname: cfg.Mesh.Tailnet.Hostname, AuthKey: w.a.Mesh.AuthKey, ControlURL: cfg.Mesh.Tailnet.ControlURL, Tags: cfg.Mesh.Tailnet.Tags,
		Log: w.Log,
	})
	if err != nil {
		return fmt.Errorf("bringing this machine's device up: %w", err)
	}
	w.device = d
	if w.Prompt != nil && cfg.Mesh.Network == tsnode.Tailnet {
		w.Prompt.Tell("Asking the tailnet's control server to let this machine in. If there is no way to it,\nthat shows after half a minute; Ctrl-C leaves …")
	}
	if w.a.Mesh.AuthKey != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, keyWithin)
		defer cancel()
	}
	var said tsnode.Status
	err = d.await(ctx, func(s tsnode.Status) {
		w.tellDevice(said, s)
		said = s
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the device did not come up: %s", lastWarning(said))
	case err != nil && ctx.Err() != nil:
		return ErrLeft
	}
	return err
}

// tellDevice says what has changed about the device, once.
func (w *Wizard) tellDevice(before, now tsnode.Status) {
	if w.Prompt == nil {
		return
	}
	if now.LoginURL != "" && now.LoginURL != before.LoginURL {
		w.Prompt.Tell("\nThis machine becomes a device of your tailnet. Open this address in a browser and\nlog in; I wait:\n\n  " + now.LoginURL + "\n")
	}
	if now.State == tsnode.StateUp && before.State != now.State && now.DNSName != "" {
		w.Prompt.Tell("It is on the tailnet as " + now.DNSName + ".")
	}
	for _, warning := range now.Warnings {
		if warning.ID != "tailnet-login" && !slices.Contains(before.Warnings, warning) {
			w.Prompt.Tell(folded("", warning.Text+": "+warning.Fix))
		}
	}
}

func lastWarning(s tsnode.Status) string {
	if n := len(s.Warnings); n > 0 {
		return s.Warnings[n-1].Text + ": " + s.Warnings[n-1].Fix
	}
	return "it is " + s.State + " still: check the key, and the way to the control server"
}

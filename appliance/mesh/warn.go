package mesh

import (
	"errors"
	"fmt"
	"time"

	"viiwork/appliance/status"
)

// nameSkew is from where on two clocks that differ are worth a word.
const nameSkew = 5 * time.Second

// Warnings names what is wrong between this node and its members, for people.
func (w *Watcher) Warnings() []status.Warning {
	warnings := []status.Warning{}
	now := w.cfg.Table.clock.now() // they were heard by this clock
	for _, r := range *w.cfg.Table.records.Load() {
		if warning, ok := r.warning(now, w.cfg.Table.stale); ok {
			warnings = append(warnings, warning)
		}
		if w.cfg.Known != nil {
			if warning, ok := w.cfg.Known.doubted(r.member); ok {
				warnings = append(warnings, warning)
			}
		}
		if skew := w.cfg.Client.signer.Skew(r.member.ID); skew.Abs() >= nameSkew {
			warnings = append(warnings, skewWarning(r.member.Name, skew))
		}
	}
	return warnings
}

func skewWarning(name string, skew time.Duration) status.Warning {
	word := "ahead of"
	if skew < 0 {
		word = "behind"
	}
	return status.Warning{
		ID:   "mesh_clock",
		Text: fmt.Sprintf("the clock of %s is %s %s this machine's", name, skew.Abs().Round(time.Second), word),
		Fix:  "set both clocks by NTP (timedatectl set-ntp true); until then the nodes correct for it",
	}
}

func (r *record) warning(now time.Time, stale time.Duration) (status.Warning, bool) {
	name := r.member.Name
	var refused *refusedError
	var wire *wireError
	switch {
	case r.held:
		return status.Warning{ID: "mesh_quarantine", Text: name + " fell silent with a request at it and gets none until it answers again",
			Fix: "look at that machine: is it overloaded, asleep or its network gone?"}, true
	case r.fault == nil:
		return status.Warning{}, false
	case errors.As(r.fault, &refused) && refused.code == codeSignature:
		return status.Warning{ID: "mesh_secret", Text: name + " refuses what this node signs: the two have different secrets",
			Fix: "give both the same mesh secret and restart the one that changes"}, true
	case errors.As(r.fault, &refused) && refused.code == codeOpenMesh:
		return status.Warning{ID: "mesh_mode", Text: name + " has a mesh secret, and this node's mesh is open",
			Fix: "give this node the mesh's secret instead of mesh.open"}, true
	case errors.As(r.fault, &wire):
		return status.Warning{ID: "mesh_version", Text: fmt.Sprintf("%s speaks version %d between nodes, this node %d to %d", name, wire.theirs, WireOldest, Wire),
			Fix: "update the older of the two"}, true
	case r.heard.IsZero() || now.Sub(r.heard) >= stale:
		return status.Warning{ID: "mesh_silent", Text: fmt.Sprintf("%s does not tell its capacity: %v", name, r.fault),
			Fix: "see whether viiwork runs there and this machine reaches " + r.member.Addr}, true
	}
	return status.Warning{}, false
}

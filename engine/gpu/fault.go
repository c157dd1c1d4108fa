package gpu

import (
	"fmt"
	"strings"

	"viiwork/engine"
)

// driverFaults are the texts by which NVIDIA's driver and Docker tell what is wrong: there are no codes. Each has its
// own way out.
var driverFaults = []struct{ text, id, what, fix string }{
	{"Driver/library version mismatch", "driver_mismatch", "the NVIDIA driver was updated but the old one is still loaded", "reboot this machine"},
	{"GPU is lost", "gpu_lost", "%s is lost", "reboot this machine; if it happens again, check the card, its power and its slot"},
	{"Failed to initialize NVML: Unknown Error", "container_lost_gpus", "this container has lost its NVIDIA cards", "restart the container; the host's cards are fine"},
	{"couldn't communicate with the NVIDIA driver", "no_driver", "no NVIDIA driver is loaded", "install or load the driver, then run nvidia-smi"},
	{"No devices were found", "no_devices", "the NVIDIA driver is loaded but finds no card", "see what 'dmesg' says of NVRM; check the card, its power and its slot"},
	{"could not select device driver", "toolkit_missing", "Docker cannot give NVIDIA cards to containers",
		"install nvidia-container-toolkit, run 'nvidia-ctk runtime configure --runtime=docker' and restart Docker"},
}

// Faults reads what nvidia-smi printed besides cards, or what Docker said when it was to start a container with them.
func Faults(text string) []Fault {
	var faults []Fault
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		for _, f := range driverFaults {
			if !strings.Contains(line, f.text) {
				continue
			}
			fault := Fault{ID: f.id, Accel: engine.AccelCUDA, Text: f.what, Fix: f.fix}
			if strings.Contains(f.what, "%s") { // of one card
				fault.PCI = busID.FindString(line)
				fault.Text = fmt.Sprintf(f.what, strings.TrimSpace("NVIDIA card "+fault.PCI))
			}
			if key := fault.ID + fault.PCI; !seen[key] && len(faults) < cardsMax {
				seen[key] = true
				faults = append(faults, fault)
			}
		}
	}
	return faults
}

func vanished(c Card) Fault {
	return Fault{
		ID: "vanished", Accel: c.Accel, PCI: c.PCI,
		Text: fmt.Sprintf("%s card %d (%s) was there when the node looked last and is gone", c.Accel, c.Index, c.Name),
		Fix:  "see what 'dmesg' says; check the card, its power and its slot, then restart the node",
	}
}

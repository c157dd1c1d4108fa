package main

import (
	"bytes"
	"fmt"

	"viiwork/appliance/status"
)

// drawCards lists the machine's graphics cards and how they are; - is what the driver does not tell.
func drawCards(out *bytes.Buffer, cards []status.GPU, bold bool) {
	if len(cards) == 0 {
		return
	}
	t := table{bold: bold, head: []string{"GPU", "NAME", "MEMORY", "BUSY", "TEMP", "POWER", "MODEL"}}
	for _, c := range cards {
		name := c.Name
		switch {
		case c.Integrated:
			name += ", part of the processor"
		case len(c.Instances) > 0:
			name += fmt.Sprintf(", cut into %d MIG instances", len(c.Instances))
		}
		t.add(fmt.Sprintf("%s %d", c.Accel, c.Index), name, memoryWord(c), percentWord(c.Busy), celsiusWord(c), powerWord(c), orDash(c.Model))
	}
	fmt.Fprintln(out)
	t.draw(out)
}

// memoryWord is "14.0 of 16.0 GiB", as far as it is known.
func memoryWord(c status.GPU) string {
	gib := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprintf("%.1f", float64(*n)/(1<<30))
	}
	switch {
	case c.Memory == nil && c.Used == nil:
		return "-"
	case c.Used == nil:
		return gib(c.Memory) + " GiB"
	}
	return gib(c.Used) + " of " + gib(c.Memory) + " GiB"
}

func percentWord(part *float64) string {
	if part == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", *part*100)
}

// celsiusWord is "61 °C", and says when the card slows down for it.
func celsiusWord(c status.GPU) string {
	if c.Celsius == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f °C", *c.Celsius) + slowWord(c.ByHeat)
}

func slowWord(slow *bool) string {
	if slow == nil || !*slow {
		return ""
	}
	return ", throttled"
}

// powerWord is "171 of 225 W".
func powerWord(c status.GPU) string {
	switch {
	case c.Watts == nil:
		return "-"
	case c.CapWatts == nil:
		return fmt.Sprintf("%.0f W", *c.Watts) + slowWord(c.ByPower)
	}
	return fmt.Sprintf("%.0f of %.0f W", *c.Watts, *c.CapWatts) + slowWord(c.ByPower)
}

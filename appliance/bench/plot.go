package bench

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// The page of a plot, in its own units.
const (
	plotWidth, plotHeight     = 900.0, 240.0
	plotLeft, plotRight       = 56.0, 30.0
	plotTop, plotBottom       = 10.0, 28.0
	plotBreadth, plotStanding = plotWidth - plotLeft - plotRight, plotHeight - plotTop - plotBottom
)

// plot draws a chart over time as SVG. Nothing but numbers and words of ours goes into it.
type plot struct {
	b     strings.Builder
	until float64 // s
}

func newPlot(took time.Duration, title string) *plot {
	p := &plot{until: max(1, took.Seconds())}
	fmt.Fprintf(&p.b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, title)
	step := roundStep(p.until / 8)
	for t := 0.0; t <= p.until; t += step {
		fmt.Fprintf(&p.b, `<text class="x" x="%.1f" y="%g">%s</text>`, p.x(t), plotHeight-8, clockText(t, step))
	}
	return p
}

func (p *plot) x(t float64) float64 { return plotLeft + plotBreadth*min(1, t/p.until) }

// y of a share of the height, from below.
func (p *plot) y(share float64) float64 { return plotTop + plotStanding*(1-min(max(share, 0), 1)) }

// line is a horizontal of the grid with its label.
func (p *plot) line(share float64, label string) {
	y := p.y(share)
	fmt.Fprintf(&p.b, `<path class="grid" d="M%g %.1fH%g"/><text class="y" x="%g" y="%.1f">%s</text>`, plotLeft, y, plotWidth-plotRight, plotLeft-6, y+4, label)
}

// dot marks a point, by shape as well as by colour.
func (p *plot) dot(class Class, t, share float64) {
	shapes := [...]string{"M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", "M-3-3h6v6h-6z", "M0-4l4 4-4 4-4-4z", "M-3 0h6M0-3v6"}
	fmt.Fprintf(&p.b, `<path class="dot %s" transform="translate(%.1f %.1f)" d="%s"/>`, class, p.x(t), p.y(share), shapes[class])
}

// bar stands from one share of the height to another.
func (p *plot) bar(kind string, from, to, low, high float64) {
	fmt.Fprintf(&p.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, kind, p.x(from)+0.5, p.y(high), max(0.5, p.x(to)-p.x(from)-1), p.y(low)-p.y(high))
}

// path joins points; where one is not known the line has a gap.
func (p *plot) path(times, shares []float64) {
	var d strings.Builder
	pen := "M"
	for i, t := range times {
		if math.IsNaN(shares[i]) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", pen, p.x(t), p.y(shares[i]))
		if pen == "M" {
			d.WriteString("h0.1") // a lone point is seen, too
		}
		pen = "L"
	}
	fmt.Fprintf(&p.b, `<path class="hit" d="%s"/>`, d.String())
}

func (p *plot) done() template.HTML {
	p.b.WriteString("</svg>")
	return template.HTML(p.b.String())
}

// roundStep is the next larger step that people count in, in s.
func roundStep(least float64) float64 {
	for _, s := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200} {
		if s >= least {
			return s
		}
	}
	return 14400
}

func clockText(t, step float64) string {
	if step < 60 {
		return fmt.Sprintf("%gs", t)
	}
	if step < 3600 {
		return fmt.Sprintf("%gmin", t/60)
	}
	return fmt.Sprintf("%gh", t/3600)
}

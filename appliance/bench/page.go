package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"
)

//go:embed page.html
var pageText string

// HTML writes the report as one page that needs nothing else: no script, no request.
func (r Report) HTML(w io.Writer) error {
	page, err := template.New("page").Funcs(template.FuncMap{
		"percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
		"seconds": func(v float64) string { return fmt.Sprintf("%.2f s", v) },
		"whole":   func(v float64) string { return fmt.Sprintf("%.0f", v) },
	}).Parse(pageText)
	if err != nil {
		return err
	}
	turns := those(r.Turns, func(t Turn) bool { return t.Error == "" })
	return page.Execute(w, struct {
		Summary
		Started              string
		Took                 time.Duration
		Context              int
		Think                float64
		Way                  string
		Starts, Hits, Change template.HTML
	}{r.Summary(), r.Started.UTC().Format("2006-01-02 15:04 MST"), r.Took.Round(time.Second), r.Context, r.Think, r.way(),
		drawTimes(turns, r.Took), drawHits(turns, r.Took), drawChanges(turns, r.Took)})
}

func (r Report) way() string {
	if r.Single {
		return "all turns came in by one of"
	}
	return "turns came in at random by"
}

// mostDots a class has: beyond that every so manieth turn is drawn.
const mostDots = 800

// drawTimes shows each turn's time to its first token, on a logarithmic scale.
func drawTimes(turns []Turn, took time.Duration) template.HTML {
	low, high := math.Inf(1), 0.1
	for _, t := range turns {
		v := max(0.001, t.TTFT.Seconds())
		low, high = min(low, v), max(high, v)
	}
	from, to := math.Floor(math.Log10(min(low, 0.1))), math.Ceil(math.Log10(high))
	to = max(to, from+1)
	p := newPlot(took, "time to the first token")
	for e := from; e <= to; e++ {
		p.line((e-from)/(to-from), fmt.Sprintf("%gs", math.Pow(10, e)))
	}
	for c := Unknown; c >= Warm; c-- { // the rarer ones on top
		of := those(turns, func(t Turn) bool { return t.Class() == c })
		every := 1 + (len(of)-1)/mostDots
		for i := 0; i < len(of); i += every {
			p.dot(c, of[i].At.Seconds(), (math.Log10(max(0.001, of[i].TTFT.Seconds()))-from)/(to-from))
		}
	}
	return p.done()
}

// binsOf is into how many stretches of time the turns are sorted: the fewer they are, the longer each must be to say
// something.
func binsOf(turns []Turn) int { return min(45, max(6, len(turns)/10)) }

// binned counts turns by the time at which they began.
func binned(turns []Turn, took time.Duration, what func(Turn) bool) []int {
	bins := binsOf(turns)
	counts := make([]int, bins)
	for _, t := range turns {
		if what(t) {
			counts[min(bins-1, int(float64(bins)*t.At.Seconds()/max(1, took.Seconds())))]++
		}
	}
	return counts
}

// drawHits shows the share of turns that found what their session had.
func drawHits(turns []Turn, took time.Duration) template.HTML {
	p := newPlot(took, "share of hits")
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		p.line(v, fmt.Sprintf("%.0f%%", 100*v))
	}
	all := binned(turns, took, Turn.ordinary)
	hits := binned(turns, took, func(t Turn) bool { return t.ordinary() && t.Hit() })
	times, shares := make([]float64, len(all)), make([]float64, len(all))
	for i := range all {
		times[i], shares[i] = p.until*(float64(i)+0.5)/float64(len(all)), float64(hits[i])/float64(all[i]) // not a number without turns
	}
	p.path(times, shares)
	return p.done()
}

// drawChanges shows how many turns ran elsewhere than the one before, and how warm they were there.
func drawChanges(turns []Turn, took time.Duration) template.HTML {
	kinds := []struct {
		name string
		what func(Turn) bool
	}{
		{"other", func(t Turn) bool { return t.ordinary() && t.Moved == MovedBackend }},
		{"warm", func(t Turn) bool { return t.ordinary() && t.Moved == MovedNode && t.Class() == Warm }},
		{"partly", func(t Turn) bool { return t.ordinary() && t.Moved == MovedNode && t.Class() == Partly }},
		{"cold", func(t Turn) bool { return t.ordinary() && t.Moved == MovedNode && t.Class() >= Cold }},
	}
	bins := binsOf(turns)
	sums, low := make([]int, bins), make([]int, bins)
	counts := make([][]int, len(kinds))
	most := 1
	for k, kind := range kinds {
		counts[k] = binned(turns, took, kind.what)
		for i, n := range counts[k] {
			sums[i] += n
			most = max(most, sums[i])
		}
	}
	p := newPlot(took, "turns that ran elsewhere than the one before")
	p.line(0, "0")
	p.line(1, fmt.Sprint(most))
	edge := func(i int) float64 { return p.until * float64(i) / float64(bins) }
	for k, kind := range kinds {
		for i, n := range counts[k] {
			if n > 0 {
				p.bar(kind.name, edge(i), edge(i+1), float64(low[i])/float64(most), float64(low[i]+n)/float64(most))
			}
			low[i] += n
		}
	}
	return p.done()
}

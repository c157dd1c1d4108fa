package web

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// unknown is what a page shows for what is not known: it is not zero.
const unknown = "–"

// functions are those of the templates. Each cell says in attributes what it shows, so that a script can show the next value.
var functions = template.FuncMap{
	"td": td, "show": show, "link": link, "bar": bar, "format": format, "blank": func() row { return row{} },
	"list": func(values ...any) []any { return values }, "value": value, "deref": deref, "share": share,
}

// td is a table's cell: what it shows of the row, in which form, and under which heading.
func td(r row, field, as, label string) template.HTML {
	text := format(r[field], as)
	class := ""
	if numeric(as) {
		class = "n"
	}
	if text == unknown {
		class += " u"
	}
	return template.HTML(`<td class="` + class + `" data-label="` + esc(label) + `"` + binding(r, field, as) + `>` + esc(text) + `</td>`)
}

// show is the same in a line of text.
func show(r row, field, as string) template.HTML {
	return template.HTML(`<span` + binding(r, field, as) + `>` + esc(format(r[field], as)) + `</span>`)
}

// link leads to where a value is explained.
func link(r row, field, as, to string) template.HTML {
	text, _ := r[field].(string)
	href := ""
	if text != "" {
		href = ` href="` + esc(to+pathEscape(text)) + `"`
	}
	return template.HTML(`<a data-href="` + esc(to) + `"` + href + binding(r, field, as) + `>` + esc(format(r[field], as)) + `</a>`)
}

// bar is how much of something is taken. most is a field too, or "" for shares.
func bar(r row, field, most, label string) template.HTML {
	v, known := r[field].(float64)
	m, bounded := r[most].(float64)
	if most == "" {
		m, bounded = 1, true
	}
	hidden := ""
	if !known || !bounded || m <= 0 {
		v, m, hidden = 0, 1, " hidden"
	}
	return template.HTML(fmt.Sprintf(`<meter data-f="%s" data-most="%s" min="0" max="%s" value="%s" aria-label="%s"%s></meter>`,
		esc(field), esc(most), number(m), number(v), esc(label), hidden))
}

func binding(r row, field, as string) string {
	out := ` data-f="` + esc(field) + `" data-as="` + esc(as) + `"`
	if as == "state" {
		text, _ := r[field].(string)
		out += ` data-v="` + esc(text) + `"`
	}
	return out
}

func esc(s string) string { return template.HTMLEscapeString(s) }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// pathEscape keeps a name one element of a path.
func pathEscape(s string) string { return template.URLQueryEscaper(s) }

func numeric(as string) bool {
	switch as {
	case "int", "k", "ms", "bytes", "pct", "rate", "watts", "kwh", "celsius", "ago", "since", "seconds":
		return true
	}
	return false
}

// format puts a value into words. format.js does it in the same way: a test holds one against the other.
func format(v any, as string) string {
	switch x := v.(type) {
	case nil:
		return unknown
	case bool:
		if x {
			return "yes"
		}
		return ""
	case string:
		return formatText(x, as)
	case float64:
		return formatNumber(x, as)
	}
	return unknown
}

func formatText(s, as string) string {
	if s == "" {
		return unknown
	}
	switch as {
	case "short":
		return shorten(s)
	case "ago", "since", "clock":
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || t.Year() < 2000 { // there were no nodes: who wrote it had no time to tell
			return unknown
		}
		if as == "clock" {
			return t.Local().Format("15:04:05")
		}
		return formatSpan(time.Since(t).Seconds())
	}
	return s
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 8 {
		return string(r[:8])
	}
	return s
}

func formatNumber(v float64, as string) string {
	switch as {
	case "k":
		switch {
		case v >= 1e6:
			return fixed(v/1e6, 1) + " M"
		case v >= 1e4:
			return fixed(v/1e3, 0) + " k"
		case v >= 1e3:
			return fixed(v/1e3, 1) + " k"
		}
		return fixed(v, 0)
	case "ms":
		return formatMS(v)
	case "seconds":
		return formatMS(v * 1000)
	case "bytes":
		switch {
		case v >= 1<<30:
			return fixed(v/(1<<30), 1) + " GiB"
		case v >= 1<<20:
			return fixed(v/(1<<20), 0) + " MiB"
		}
		return fixed(v/(1<<10), 0) + " KiB"
	case "pct":
		return fixed(v*100, 0) + " %"
	case "rate":
		if v >= 100 {
			return fixed(v, 0)
		}
		return fixed(v, 1)
	case "watts":
		return fixed(v, 0) + " W"
	case "kwh":
		return fixed(v, 2) + " kWh"
	case "celsius":
		return fixed(v, 0) + " °C"
	}
	return fixed(v, 0)
}

func formatMS(v float64) string {
	switch {
	case v >= 59_950:
		return formatSpan(v / 1000)
	case v >= 999.5:
		return fixed(v/1000, 1) + " s"
	case v >= 0.05 && v < 9.95:
		return fixed(v, 1) + " ms"
	}
	return fixed(v, 0) + " ms"
}

// formatSpan tells a span in its two largest units.
func formatSpan(seconds float64) string {
	s := int64(max(0, seconds))
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}

// fixed rounds halves away from zero, as toFixed does for what is shown here.
func fixed(v float64, digits int) string {
	p := math.Pow(10, float64(digits))
	return strconv.FormatFloat(math.Round(v*p)/p+0, 'f', digits, 64) // +0: never "-0"
}

func value(r row, field string) any { return r[field] }

// deref shows a figure that may be missing.
func deref(v any, as string) string {
	switch p := v.(type) {
	case *int:
		if p != nil {
			return formatNumber(float64(*p), as)
		}
	case *float64:
		if p != nil {
			return formatNumber(*p, as)
		}
	case *int64:
		if p != nil {
			return formatNumber(float64(*p), as)
		}
	case string:
		return formatText(strings.TrimSpace(p), as)
	case int64:
		return formatNumber(float64(p), as)
	}
	return unknown
}

// share is a part of a whole, in percent.
func share(part, whole *int) string {
	if part == nil || whole == nil || *whole == 0 {
		return unknown
	}
	return fixed(100*float64(*part)/float64(*whole), 0) + " %"
}

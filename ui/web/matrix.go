package web

import (
	"fmt"
	"slices"
)

// matrix is what caches moved between each two machines, by all paths.
type matrix struct {
	To   []string
	Rows []matrixRow
}

type matrixRow struct {
	From  string
	Cells []string // as To; "" = nothing moved
}

// moved sums one pair up.
type moved struct{ bytes, seconds, proved, failed float64 }

// Matrix is empty where nothing has moved from one machine to another.
func (v *view) Matrix() matrix {
	sums := map[[2]string]moved{}
	var hosts []string
	for _, r := range v.rows["pairs"] {
		from, _ := r["from"].(string)
		to, _ := r["to"].(string)
		if from == to {
			continue
		}
		for _, name := range []string{from, to} {
			if !slices.Contains(hosts, name) {
				hosts = append(hosts, name)
			}
		}
		s := sums[[2]string{from, to}]
		sums[[2]string{from, to}] = moved{s.bytes + r.figure("bytes"), s.seconds + r.figure("seconds"), s.proved + r.figure("proved"), s.failed + r.figure("failed")}
	}
	slices.Sort(hosts)
	m := matrix{To: hosts}
	for _, from := range hosts {
		row := matrixRow{From: from}
		for _, to := range hosts {
			row.Cells = append(row.Cells, sums[[2]string{from, to}].String())
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

func (s moved) String() string {
	if s == (moved{}) {
		return ""
	}
	return fmt.Sprintf("%s in %s; %.0f used, %.0f wasted", formatNumber(s.bytes, "bytes"), formatMS(1000*s.seconds), s.proved, s.failed)
}

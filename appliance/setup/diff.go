package setup

import (
	"fmt"
	"slices"
	"strings"
)

// diffContext is how many unchanged lines are shown around a change.
const diffContext = 3

// maxDiff is how many lines of either side are compared line by line; beyond it a diff would help nobody.
const maxDiff = 2000

// Diff shows what becomes of a text, as `diff -u` does; "" when nothing.
func Diff(name, old, new string) string {
	if old == new {
		return ""
	}
	a, b := slices.Collect(strings.Lines(old)), slices.Collect(strings.Lines(new))
	if len(a) > maxDiff || len(b) > maxDiff {
		return fmt.Sprintf("%s: %d lines are replaced by %d\n", name, len(a), len(b))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s, new\n", name, name)
	edits := edits(a, b)
	for start := 0; start < len(edits); {
		if edits[start].sign == ' ' {
			start++
			continue
		}
		first := max(start-diffContext, 0)
		end := hunkEnd(edits, start)
		writeHunk(&out, edits[first:end])
		start = end
	}
	return out.String()
}

// edit is a line that stays, goes or comes, with the numbers it has on both sides.
type edit struct {
	sign       byte
	text       string
	oldN, newN int
}

// edits finds the fewest lines to take out and put in, by the longest common subsequence.
func edits(a, b []string) []edit {
	common := make([][]int16, len(a)+1)
	for i := range common {
		common[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var list []edit
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			list = append(list, edit{' ', a[i], i + 1, j + 1})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			list = append(list, edit{'-', a[i], i + 1, j + 1})
			i++
		default:
			list = append(list, edit{'+', b[j], i + 1, j + 1})
			j++
		}
	}
	return list
}

// hunkEnd is where a run of changes that lie near each other ends, with the lines after it.
func hunkEnd(edits []edit, start int) int {
	end, quiet := start, 0
	for end < len(edits) && quiet <= 2*diffContext {
		quiet++
		if edits[end].sign != ' ' {
			quiet = 0
		}
		end++
	}
	return end - max(quiet-diffContext, 0)
}

func writeHunk(out *strings.Builder, hunk []edit) {
	olds, news := 0, 0
	for _, e := range hunk {
		if e.sign != '+' {
			olds++
		}
		if e.sign != '-' {
			news++
		}
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", hunk[0].oldN, olds, hunk[0].newN, news)
	for _, e := range hunk {
		fmt.Fprintf(out, "%c%s\n", e.sign, strings.TrimSuffix(e.text, "\n"))
	}
}

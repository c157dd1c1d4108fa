package bench

import (
	"math"

	"viiwork/appliance/status"
)

// mostSeconds and mostBytes are what a count can say and be believed.
const (
	mostSeconds = 1e6
	mostBytes   = 1 << 50
)

// saveBetween is the mean save of a model between two looks, nil if there was none.
func saveBetween(before, after status.KV, model string) *KVSave {
	was, _ := modelOf(before, model)
	is, ok := modelOf(after, model)
	n := is.Saves - was.Saves
	if !ok || n <= 0 {
		return nil
	}
	return &KVSave{Saves: n, MS: spent(was.StallSeconds, is.StallSeconds, n), Bytes: sent(was.SavedBytes, is.SavedBytes) / int64(n)}
}

// importBetween is what came to a node between two looks, nil if nothing did: from the home of a conversation, or from what the
// node itself had kept.
func importBetween(before, after status.KV, home, node string) *KVImport {
	was := map[[2]string]status.KVPair{}
	for _, p := range before.Pairs {
		was[[2]string{p.From, p.Path}] = p
	}
	var got KVImport
	var most int64 = -1
	imports, proved, failed := 0, 0, 0
	for _, p := range after.Pairs {
		if p.To != node || p.From != home && p.From != node {
			continue
		}
		w := was[[2]string{p.From, p.Path}]
		n, bytes := p.Imports-w.Imports, sent(w.Bytes, p.Bytes)
		if n <= 0 && p.Failed <= w.Failed {
			continue
		}
		imports, proved, failed = imports+max(0, n), proved+p.Proved-w.Proved, failed+p.Failed-w.Failed
		got.Fetch += spent(w.FetchSeconds, p.FetchSeconds, n)
		got.Assemble += spent(w.AssembleSeconds, p.AssembleSeconds, n)
		got.Restore += spent(w.RestoreSeconds, p.RestoreSeconds, n)
		got.Bytes += bytes
		if bytes > most {
			most, got.Path = bytes, name(p.Path)
		}
	}
	if most < 0 {
		return nil
	}
	got.Proved, got.Failed = imports > 0 && proved > 0 && failed <= 0, failed > 0
	return &got
}

// spent is the mean of n, in ms.
func spent(was, is float64, n int) float64 {
	d := is - was
	if !(d > 0) {
		return 0
	}
	return math.Round(1e6*min(d, mostSeconds)/float64(max(1, n))) / 1e3
}

func sent(was, is int64) int64 {
	if was < 0 || is < was {
		return 0
	}
	return min(is-was, mostBytes)
}

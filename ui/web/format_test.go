package web_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"viiwork/appliance/status"
	"viiwork/ui/web"
)

// tab is one of a real Chromium. Where there is none the test is skipped.
func tab(t *testing.T) context.Context {
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium here: 'make test' installs Debian's")
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.Headless, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(time.Minute)} // it starts slowly from a cold disk on a busy machine
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	alloc, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestValuesAreShownAlikeByNodeAndScript: the first paint and the next one must not differ.
func TestValuesAreShownAlikeByNodeAndScript(t *testing.T) {
	ctx := tab(t)
	forms := []string{"text", "int", "k", "ms", "seconds", "bytes", "pct", "rate", "watts", "kwh", "celsius", "short", "state"}
	values := []any{
		nil, "", "Ünïcode 机器 text", true, false, 0.0, 0.004, 0.4, 0.5, 1.0, 1.25, 1.5, 2.5, 9.96, 99.95, 999.4, 999.5, 1000.0, 9999.0, 10000.0,
		59_949.0, 59_950.0, 61_000.0, 3.7e6, 9e7, 1.5e9, 5e12, -12.5, -500.0,
	}
	args, _ := json.Marshal(map[string]any{"forms": forms, "values": values})
	url := site(t, func() status.Board { return status.Board{Node: "n"} })
	if err := chromedp.Do(ctx, chromedp.Navigate(url+"/chat")); err != nil {
		t.Fatal(err)
	}
	theirs, err := chromedp.Run(ctx, chromedp.Evaluate[[][]string](
		`import('/assets/format.js').then((m) => { const a = `+string(args)+`; return a.forms.map((f) => a.values.map((v) => m.format(v, f))); })`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	for i, form := range forms {
		for k, v := range values {
			if ours := web.Format(v, form); ours != theirs[i][k] {
				t.Errorf("%v as %s: the node shows %q, the script %q", v, form, ours, theirs[i][k])
			}
		}
	}
}

// TestAgesAreByTheNodesClock: a browser whose own clock is wrong shows them all the same, and what has no time has no age.
func TestAgesAreByTheNodesClock(t *testing.T) {
	ctx := tab(t)
	url := site(t, func() status.Board { return status.Board{Node: "n"} })
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `{ const now = Date.now.bind(Date); Date.now = () => now() + 3600000; }`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(url+"/mesh")); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-30*24*time.Hour - 10*time.Minute).UTC().Format(time.RFC3339)
	ages, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](
		`import('/assets/format.js').then((m) => ['`+then+`', '0001-01-01T00:00:00Z', 'x'].map((v) => m.format(v, 'ago')))`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if ages[0] != "30 d 0 h" || ages[1] != "–" || ages[2] != "–" {
		t.Errorf("ages of 30 days, of the year 1 and of no time: %q", ages)
	}
	if age := web.Format("0001-01-01T00:00:00Z", "ago"); age != "–" {
		t.Errorf("the node shows an age of %q", age)
	}
}

package appliance_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"viiwork/engine/enginetest"
)

// browser is a tab of a real Chromium that notes what goes wrong in it, and whom it talks to.
type browser struct {
	t   testing.TB
	ctx context.Context

	mu     sync.Mutex // guards what follows
	faults []string
	asked  []string // addresses
}

// newBrowser starts one. Where there is none the test is skipped.
func newBrowser(t testing.TB) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium here: 'make test' installs Debian's")
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.Headless, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(time.Minute)} // it starts slowly from a cold disk on a busy machine
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	b := &browser{t: t}
	alloc, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(alloc, chromedp.WithListener(b.hear))
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 6*longWait)
	t.Cleanup(cancel)
	b.ctx = ctx
	return b
}

func (b *browser) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *log.EventEntryAdded:
		b.faults = append(b.faults, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception: "+e.ExceptionDetails.Text+" "+describe(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		b.faults = append(b.faults, fmt.Sprint("console.", e.Type))
	}
}

func describe(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

// do runs actions, and ends the test where one fails.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("in the browser: %v; it noted %v", err, b.noted())
	}
}

// eval runs a script in the page.
func eval[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%.80s: %v; the browser noted %v", script, err, b.noted())
	}
	return v
}

// size makes the window so wide, and dark or light.
func (b *browser) size(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do(chromedp.EmulateViewport(width, height))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.t.Fatal(err)
	}
}

// comes waits until a script gives true.
func (b *browser) comes(what, script string) {
	b.t.Helper()
	for end := time.Now().Add(longWait); !eval[bool](b, "!!("+script+")"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never came: %s; the browser noted %v; the page: %.600s", what, b.noted(), eval[string](b, "document.body.innerText"))
		}
	}
}

func (b *browser) noted() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.faults...)
}

// clean fails the test where something went wrong in the browser, or it talked to anybody but hosts.
func (b *browser) clean(hosts ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Errorf("the browser noted: %s", f)
	}
	for _, a := range b.asked {
		u, err := url.Parse(a)
		if err != nil || u.Scheme != "blob" && u.Scheme != "about" && !strings.Contains(strings.Join(hosts, " "), u.Host) {
			b.t.Errorf("the browser asked %s", a)
		}
	}
	b.faults, b.asked = nil, nil
}

// shoot keeps a picture of the page where they are wanted.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := screens()
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	small, err := with256Colours(picture)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+name+".png", small, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// house is a mesh of three machines under load.
type house struct {
	all     []*fellow
	engines []*enginetest.Server
	leave   []func() error
}

// newHouse starts three machines with two models. The first has cards, the last an older release.
func newHouse(t testing.TB) *house {
	h := &house{}
	names := []string{"attic", "cellar", "desk"}
	speeds := []float64{60, 45, 12}
	h.all = lanFellows(t, 3, func(i int) []string {
		big := fakeEngine(t, enginetest.Options{Slots: 4, Model: "Qwen3.8-27B", PrefillTPS: 80 * speeds[i], DecodeTPS: speeds[i], PromptCache: 8})
		small := fakeEngine(t, enginetest.Options{Slots: 2, Model: "gemma-4b", PrefillTPS: 200 * speeds[i], DecodeTPS: 3 * speeds[i]})
		h.engines = append(h.engines, big, small)
		lines := []string{served("Qwen3.8-27B", big.URL(), 4)}
		if i < 2 {
			lines = append(lines, served("gemma-4b", small.URL(), 2))
		}
		return lines
	})
	for i, f := range h.all {
		f.name, f.secret, f.version = names[i], rightSecret, []string{"2.1.0", "2.1.0", "2.0.3"}[i]
		if i == 0 {
			f.root = hosts + "gfx906x4"
		}
		f.more = "aliases: {coder: Qwen3.8-27B}\n"
		h.leave = append(h.leave, f.here(t))
	}
	for _, f := range h.all {
		holds(t, "three machines serve", func() bool { return f.sees("Qwen3.8-27B") == 3 && f.sees("gemma-4b") == 2 })
	}
	return h
}

// work has clients ask until the test ends: conversations that grow, at all machines.
func (h *house) work(t testing.TB, clients int) {
	over := make(chan struct{})
	var asking sync.WaitGroup
	for c := range clients {
		asking.Go(func() {
			text := fmt.Sprintf("conversation %d ", c) + strings.Repeat("of many words about one thing or another ", 150*(1+c%4))
			for turn := 0; ; turn++ {
				select {
				case <-over:
					return
				default:
				}
				model := "coder"
				if c%5 == 4 {
					model = "gemma-4b"
				}
				if turn%6 == 5 { // another one begins
					text = fmt.Sprintf("conversation %d.%d ", c, turn) + strings.Repeat("that begins anew ", 900)
				}
				text += fmt.Sprintf("and turn %d ", turn) + strings.Repeat("more of it ", 40)
				task := "agent"
				if c == 0 {
					task = `<img src=x onerror=alert(1)> &amp;`
				}
				h.all[c%3].chat("", question(model, text, 60+20*(c%5), true), "X-Session-Id", fmt.Sprintf("%d-%d", c, turn/6), "X-Viiwork-Task", task)
			}
		})
	}
	t.Cleanup(func() {
		close(over)
		asking.Wait()
	})
}

// screens is where pictures of the pages are kept, "" = nowhere.
func screens() string { return os.Getenv("VIIWORK_TEST_SCREENS") }

// apart chooses 256 colours at most, the first ones first, but none that is near one it has: else the many shades of a text's
// edges would leave no room for the few words that are green.
func apart(all []color.RGBA) (few color.Palette) {
	near := func(x, y color.RGBA) bool {
		d := func(a, b uint8) int { return (int(a) - int(b)) * (int(a) - int(b)) }
		return d(x.R, y.R)+d(x.G, y.G)+d(x.B, y.B) < 200
	}
	for _, c := range all {
		if len(few) < 256 && !slices.ContainsFunc(few, func(old color.Color) bool { return near(old.(color.RGBA), c) }) {
			few = append(few, c)
		}
	}
	return few
}

// with256Colours makes a picture of a page a third as large: a few colours stand for those near them.
func with256Colours(data []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	area := full.Bounds()
	often := map[color.RGBA]int{}
	coarse := func(x, y int) color.RGBA {
		r, g, b, _ := full.At(x, y).RGBA()
		return color.RGBA{uint8(r >> 8 &^ 3), uint8(g >> 8 &^ 3), uint8(b >> 8 &^ 3), 255}
	}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			often[coarse(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(often), func(a, b color.RGBA) int { return often[b] - often[a] })
	few := apart(all)
	nearest := map[color.RGBA]uint8{}
	out := image.NewPaletted(area, few)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			c := coarse(x, y)
			i, known := nearest[c]
			if !known {
				i = uint8(few.Index(c))
				nearest[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var small bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, out)
	return small.Bytes(), err
}

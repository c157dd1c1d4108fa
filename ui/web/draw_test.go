package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"viiwork/appliance/status"
)

// byHand has a page told, and its frames and seconds made, by the test: a frame draws two rows.
const byHand = `
let stream, frames = [], now = 0;
const second = [], day = Date.now();
window.EventSource = class extends EventTarget { constructor() { super(); stream = this; } close() {} };
window.requestAnimationFrame = (f) => frames.push(f);
window.setInterval = (f, ms) => { if (ms === 1000) second.push(f); };
performance.now = () => ++now;
Date.now = () => day;
window.tell = (name, kind, more) => stream.dispatchEvent(new MessageEvent(name, { data: JSON.stringify({ kind, ...more }) }));
window.frame = () => frames.splice(0).map((f) => f()).length;
window.tick = () => second.forEach((f) => f());
`

// told tells of engines, their slots and requests that come, change and go, while what was told before is half drawn. Then it compares
// all lists with what they would be if they were drawn at once.
const told = `(async () => {
  const [{ rows }, { fill }] = await Promise.all([import('/assets/store.js'), import('/assets/bind.js')]);
  let seed = 1;
  const any = (n) => (seed = (seed * 1103515245 + 12345) % 2 ** 31, (seed >> 8) % n);
  const all = { engines: {}, slots: {}, requests: {} };
  const filter = document.getElementById('filter');
  const wrong = [];
  for (let round = 0; round < 600; round++) {
    const set = { engines: {}, slots: {}, requests: {} };
    const gone = { engines: [], slots: [], requests: [] };
    const put = (kind, key, fields) => { set[kind][key] = all[kind][key] = { ...all[kind][key], ...fields, key }; };
    const del = (kind, key) => { delete all[kind][key]; delete set[kind][key]; gone[kind].push(key); };
    for (const r of Object.values(all.requests)) {
      if (!any(6)) del('requests', r.key);
      else if (!any(3)) put('requests', r.key, { live: r.live && !any(2), output_tokens: any(999) });
    }
    for (let i = any(30); i > 0; i--) put('requests', 'r' + round + '-' + i, { live: true, self: true, task: any(2) ? 'odd' : 'even', time: new Date(Date.now() - any(9e5)).toISOString() });
    for (const s of Object.values(all.slots)) if (!any(3)) put('slots', s.key, { tokens: any(999) });
    for (const e of new Set([any(6), any(6)].slice(any(3)).map((n) => 'e' + n))) {
      if (!all.engines[e]) {
        put('engines', e, { self: true });
        for (let i = 0; i < 4; i++) put('slots', e + i, { engine: e, slot: i, tokens: 0 });
      } else if (any(2)) {
        put('engines', e, { restarts: any(99) });
      } else {
        del('engines', e);
        for (let i = 0; i < 4; i++) del('slots', e + i);
      }
    }
    for (const kind in all) {
      if (!Object.keys(set[kind]).length && !gone[kind].length) continue;
      if (round % 50) tell('patch', kind, { set: set[kind], gone: gone[kind].filter((key) => !set[kind][key]) });
      else tell('snapshot', kind, { rows: Object.values(all[kind]) });
      if (!any(3)) frame();
    }
    if (filter && !any(8)) {
      filter.value = ['', 'odd', 'even'][any(3)];
      filter.dispatchEvent(new Event('input'));
    }
    if (!any(4)) tick();
    for (let i = any(12); i > 0; i--) frame();
    if (round % 10 !== 9) continue;
    while (frame());
    for (const list of document.querySelectorAll('[data-list]')) {
      const { list: kind, only = '', in: field, by = '', first } = list.dataset;
      const name = by.replace('-', '');
      let want = [...rows(kind).values()].filter((r) => !only.startsWith('!') || !r.live).filter((r) => !only.startsWith('live') || r.live)
        .filter((r) => !field || r[field] === list.closest('[data-key]').dataset.key).filter((r) => kind !== 'requests' || !filter?.value || r.task === filter.value)
        .sort((a, b) => (by.startsWith('-') ? -1 : 1) * (a[name] < b[name] ? -1 : a[name] > b[name] ? 1 : 0) || (a.key < b.key ? -1 : 1));
      const more = first && list.closest('section').querySelector('[data-more]');
      if (more && more.hidden !== want.length <= first) wrong.push(round + ': of ' + want.length + ' rows the note is hidden: ' + more.hidden);
      if (first) want = want.slice(0, first);
      const text = (el) => { const e = el.cloneNode(true); e.querySelectorAll('[data-list]').forEach((l) => l.replaceChildren()); return e.dataset.key + e.textContent.replace(/\s+/g, ' '); };
      const is = [...list.querySelectorAll(':scope > [data-key]')].map(text);
      const be = want.map((r) => {
        const el = list.querySelector(':scope > template').content.firstElementChild.cloneNode(true);
        el.dataset.key = r.key;
        fill(el, r);
        return text(el);
      });
      if (is.join() !== be.join()) wrong.push(round + ': ' + kind + ': ' + is.filter((t, i) => t !== be[i]).slice(0, 2) + ' want ' + be.filter((t, i) => t !== is[i]).slice(0, 2));
    }
  }
  return wrong.slice(0, 5);
})()`

// TestWhatIsToldIsDrawn, all of it and nothing else, however much comes while what came before is half drawn.
func TestWhatIsToldIsDrawn(t *testing.T) {
	ctx := tab(t)
	url := site(t, func() status.Board { return status.Board{Node: "n"} })
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: byHand}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/mesh", "/requests", "/requests?all=1"} {
		if err := chromedp.Do(ctx, chromedp.Navigate(url+path)); err != nil {
			t.Fatal(err)
		}
		wrong, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](told, chromedp.EvalAwaitPromise))
		if err != nil || len(wrong) > 0 {
			t.Errorf("%s: %v\n%s", path, err, strings.Join(wrong, "\n"))
		}
	}
}

// TestWhatThePageCameWithStays while nothing more is told: a node that is away, or has no place for one more listener, has not lost its rows.
func TestWhatThePageCameWithStays(t *testing.T) {
	ctx := tab(t)
	url := site(t, func() status.Board { return board(1) })
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: byHand}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/mesh", "/requests", "/aliases"} {
		if err := chromedp.Do(ctx, chromedp.Navigate(url+path)); err != nil {
			t.Fatal(err)
		}
		_, _, body := get(t, url+path)
		_, body, _ = strings.Cut(body, "<main")
		want := strings.Count(body, "data-key=") - strings.Count(body, `data-key=""`) // those of templates are empty
		rows, err := chromedp.Run(ctx, chromedp.Evaluate[int](`tick(), frame(), frame(), document.querySelectorAll('[data-key]:not([data-key=""])').length`))
		if err != nil || rows != want || want == 0 {
			t.Errorf("%s: %d rows of %d, %v", path, rows, want, err)
		}
	}
}

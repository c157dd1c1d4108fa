// Figures over time, as the nodes keep them: drawn by uPlot, which the page loads before this.

import { format } from './format.js';
import { draw as inFrames } from './frames.js';

const box = document.getElementById('charts');
const window_ = document.getElementById('window');
const mesh = document.body.dataset.page === 'mesh';
const self = document.body.dataset.node;
const drawn = new Map(); // by title
const every = 20000;

const wanted = [
  { title: 'Tokens a second', name: 'output_tps', as: 'rate' },
  { title: 'Slots busy', name: 'slots_busy', as: 'rate' },
  { title: 'Waiting', name: 'waiting', as: 'rate' },
  { title: 'Power', name: 'watts', as: 'watts' },
];

const color = (i) => getComputedStyle(document.documentElement).getPropertyValue(['--work', '--ok', '--warn', '--hold', '--bad', '--soft'][i % 6]).trim();
const dashes = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

async function past(node) {
  const q = new URLSearchParams({ node, window: window_.value, series: wanted.map((w) => w.name).join(',') });
  const answer = await fetch(`/api/history?${q}`);
  return answer.ok ? { ...await answer.json(), node } : { node, lines: [] };
}

// align puts the nodes' figures side by side: the node that was asked gives all of them the same step, and its own moments.
function align(pasts, name) {
  const some = pasts.map((p) => ({ p, line: (p.lines || []).find((l) => l.name === name) })).filter((x) => x.line);
  if (!some.length) return null;
  const { step } = some[0].p;
  const from = Math.min(...some.map((x) => x.p.from));
  const to = Math.max(...some.map((x) => x.p.from + (x.line.values.length - 1) * step));
  const times = [];
  for (let t = from; t <= to; t += step) times.push(t);
  const columns = some.map((x) => times.map((t) => x.line.values[Math.round((t - x.p.from) / step)] ?? null));
  return { data: [times, ...columns], names: some.map((x) => x.p.node) };
}

function options(w, names, width) {
  const soft = getComputedStyle(document.documentElement).getPropertyValue('--soft').trim();
  const grid = getComputedStyle(document.documentElement).getPropertyValue('--line').trim();
  const axis = { stroke: soft, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: '11px system-ui' };
  return {
    width, height: 130, legend: { show: false }, cursor: { y: false },
    scales: { y: { range: (u, min, max) => [0, Math.max(1, (max || 0) * 1.1)] } },
    axes: [{ ...axis, space: 60, values: (u, vals) => vals.map((t) => new Date(t * 1000).toTimeString().slice(0, 5)) }, { ...axis, size: 44, values: (u, vals) => vals.map((v) => (v >= 10 || v === 0 ? v.toFixed(0) : v.toFixed(1))) }],
    series: [{}, ...names.map((name, i) => ({ label: name, stroke: color(i), dash: dashes[Math.floor(i / 6) % 4], width: 1.5, points: { show: false } }))],
  };
}

// drop takes a chart away, with what it hears of the window: a page may be open for days.
function drop(part) {
  part.observer.disconnect();
  part.u.destroy();
  part.el.remove();
}

function draw(w, pasts) {
  let part = drawn.get(w.title);
  const all = align(pasts, w.name);
  if (!all) {
    if (part) drop(part);
    drawn.delete(w.title);
    return;
  }
  if (part && part.names.join() !== all.names.join()) {
    drop(part);
    part = null;
  }
  if (!part) {
    const el = document.createElement('div');
    el.className = 'chart';
    const head = document.createElement('h3');
    const plot = document.createElement('div');
    el.append(head, plot);
    box.append(el);
    const u = new uPlot(options(w, all.names, 280), all.data, plot);
    const observer = new ResizeObserver(() => u.setSize({ width: Math.max(200, plot.clientWidth), height: 130 }));
    observer.observe(el);
    part = { el, head, names: all.names, u, observer };
    part.u.root.setAttribute('aria-hidden', 'true');
    drawn.set(w.title, part);
  } else {
    part.u.setData(all.data);
  }
  caption(part, w, all);
}

// caption tells the chart in words: the last figure of each line.
function caption(part, w, all) {
  part.head.replaceChildren(Object.assign(document.createElement('span'), { textContent: w.title }));
  all.names.forEach((name, i) => {
    const last = all.data[i + 1].findLast((v) => v !== null);
    const word = document.createElement('span');
    word.style.color = color(i);
    word.textContent = `${mesh ? `${name} ` : ''}${format(last, w.as)}`;
    part.head.append(word);
  });
}

async function show() {
  if (document.hidden) return;
  const nodes = mesh ? [...document.querySelectorAll('[data-list="machines"] > [data-key] [data-f="name"]')].map((e) => e.textContent).slice(0, 24) : [self];
  const pasts = await Promise.all(nodes.map((n) => past(n).catch(() => ({ node: n, lines: [] }))));
  inFrames(box, drawAll(pasts));
}

function* drawAll(pasts) {
  for (const w of wanted) {
    draw(w, pasts);
    yield;
  }
  document.getElementById('nocharts').hidden = drawn.size > 0;
}

if (box) {
  box.hidden = false;
  window_.disabled = false;
  window_.addEventListener('change', show);
  show();
  setInterval(show, every);
}

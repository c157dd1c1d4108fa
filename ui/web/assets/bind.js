// Keeps lists on the page as the store has them. A list is an element with data-list, its kind; its first child is a
// template of a row. data-only names fields that must be true (or, with "!", must not), data-by the field to sort by
// ("-": the largest first), data-first how many rows to show, data-in the field that holds the key of the row around the list.

import { rows, told, onChange } from './store.js';
import { format, unknown } from './format.js';
import { draw } from './frames.js';

const filters = new Set(); // of the page's own: row → is it shown
export const addFilter = (f) => { filters.add(f); refilter(); };

// refilter shows again what the filters let through, which has changed.
export const refilter = () => { for (const kind of kinds()) update(kind); };

export const kinds = () => [...new Set([...document.querySelectorAll('[data-list]'), ...nested()].map((e) => e.dataset.list))];

// Lists in the templates of other lists are none of the document yet.
function nested() {
  return [...document.querySelectorAll('template')].flatMap((t) => [...t.content.querySelectorAll('[data-list]')]);
}

function compare(x, y) {
  if (x === y) return 0;
  if (x === null || x === undefined) return -1;
  if (y === null || y === undefined) return 1;
  return x < y ? -1 : 1;
}

function chosen(list) {
  const { list: kind, only = '', by = '', in: field } = list.dataset;
  const parent = field ? list.closest('[data-key]')?.dataset.key : null;
  const wants = only.split(' ').filter(Boolean).map((w) => (w.startsWith('!') ? [w.slice(1), false] : [w, true]));
  const some = [...rows(kind).values()].filter((row) => wants.every(([name, on]) => !!row[name] === on)
    && (!field || row[field] === parent) && [...filters].every((f) => f(row, kind)));
  const name = by.replace('-', '');
  const sign = by.startsWith('-') ? -1 : 1;
  if (name) some.sort((a, b) => sign * compare(a[name], b[name]) || compare(a.key, b.key));
  return some;
}

// fill shows a row in its element. Only text, and attributes made for it, are set: never markup.
export function fill(el, row) {
  for (const cell of [el, ...el.querySelectorAll('[data-f]')]) {
    if (cell !== el && cell.closest('[data-key]') !== el) continue; // of a list within
    const { f, as, href, url } = cell.dataset;
    if (!f) continue;
    const v = row[f];
    if (cell.tagName === 'METER') {
      meter(cell, row, v);
      continue;
    }
    if (as === 'none') {
      cell.dataset.id = v ?? '';
      continue;
    }
    const text = format(v, as);
    if (cell.textContent !== text) cell.textContent = text;
    if (cell.tagName === 'TD') cell.classList.toggle('u', text === unknown);
    if (as === 'state') cell.dataset.v = v ?? '';
    if (href && v) cell.setAttribute('href', href + encodeURIComponent(v));
    if (url && /^https?:\/\//.test(row[url] || '')) cell.setAttribute('href', row[url]);
  }
  if (el.dataset.vOf) el.dataset.v = row[el.dataset.vOf] ?? '';
  for (const flag of el.querySelectorAll('[data-flag]')) flag.hidden = !row[flag.dataset.flag];
}

function meter(cell, row, v) {
  const most = cell.dataset.most ? row[cell.dataset.most] : 1;
  cell.hidden = v === null || v === undefined || !(most > 0);
  if (!cell.hidden) {
    cell.max = most;
    cell.value = v;
  }
}

const due = new WeakMap(); // list → keys of rows to fill
const aged = new WeakSet(); // lists with times that have grown older

// listed are the rows that a list has room for; what there are more is said below it.
function listed(list) {
  const all = chosen(list);
  const first = Number(list.dataset.first) || all.length;
  const more = list.dataset.first && list.closest('section')?.querySelector('[data-more]');
  if (more) more.hidden = all.length <= first;
  return all.slice(0, first);
}

// show brings one list to what it should be, touching only what is not so yet. It stops after each row that it touched.
function* show(list) {
  const template = list.querySelector(':scope > template');
  if (!template || !told(list.dataset.list)) return; // what the page came with stays until the node has told
  const some = listed(list);
  const keys = new Set(some.map((row) => row.key));
  const have = new Map();
  for (const el of list.querySelectorAll(':scope > [data-key]')) {
    have.set(el.dataset.key, el);
    if (keys.has(el.dataset.key)) continue;
    el.remove();
    yield;
  }
  let after = template;
  for (const row of some) {
    let el = have.get(row.key);
    const fresh = !el;
    let touched = due.get(list)?.delete(row.key) || fresh;
    if (fresh) {
      el = template.content.firstElementChild.cloneNode(true);
      el.dataset.key = row.key;
    }
    if (touched) {
      fill(el, row);
    } else if (aged.has(list)) {
      touched = age(el, row);
    }
    if (after.nextElementSibling !== el) {
      after.after(el);
      touched = true;
    }
    after = el;
    if (!touched) continue;
    if (fresh) for (const inner of el.querySelectorAll('[data-list]')) draw(inner, show(inner));
    yield;
  }
  due.delete(list);
  aged.delete(list);
}

// update has the lists of a kind shown; keys are of the rows that have changed, null = any may have.
function update(kind, keys = null) {
  for (const list of document.querySelectorAll(`[data-list="${kind}"]`)) {
    due.set(list, new Set([...(due.get(list) || []), ...(keys || rows(kind).keys())]));
    draw(list, show(list));
  }
}

const times = '[data-as="ago"], [data-as="since"]';

// age shows a row's times, and tells whether that changed anything.
function age(el, row) {
  let changed = false;
  for (const cell of el.querySelectorAll(times)) {
    const text = format(row[cell.dataset.f], cell.dataset.as);
    if (cell.textContent === text || cell.closest('[data-key]') !== el) continue;
    cell.textContent = text;
    changed = true;
  }
  return changed;
}

// tick has the lists shown whose times have grown older.
function tick() {
  for (const list of document.querySelectorAll('[data-list]')) {
    if (!list.querySelector(':scope > template')?.content.querySelector(times)) continue;
    aged.add(list);
    draw(list, show(list));
  }
}

export function bind() {
  onChange(update);
  setInterval(tick, 1000);
}

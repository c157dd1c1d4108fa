// Keeps lists on the page as the store has them. A list is an element with data-list, its kind; its first child is a
// template of a row. data-only names fields that must be true (or, with "!", must not), data-by the field to sort by
// ("-": the largest first), data-in the field that holds the key of the row around the list.

import { rows, onChange } from './store.js';
import { format, unknown } from './format.js';

const filters = new Set(); // of the page's own: row → is it shown
export const addFilter = (f) => { filters.add(f); for (const kind of kinds()) update(kind); };

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

// show brings one list to what it should be, touching only what is not so yet.
function show(list, keys) {
  const template = list.querySelector(':scope > template');
  if (!template) return;
  const have = new Map([...list.querySelectorAll(':scope > [data-key]')].map((e) => [e.dataset.key, e]));
  let after = template;
  for (const row of chosen(list)) {
    let el = have.get(row.key);
    have.delete(row.key);
    if (!el) {
      el = template.content.firstElementChild.cloneNode(true);
      el.dataset.key = row.key;
      fill(el, row);
      after.after(el);
      el.querySelectorAll('[data-list]').forEach((inner) => show(inner, null));
    } else {
      if (!keys || keys.has(row.key)) fill(el, row);
      if (after.nextElementSibling !== el) after.after(el);
    }
    after = el;
  }
  for (const el of have.values()) el.remove();
}

function update(kind, keys = null) {
  document.querySelectorAll(`[data-list="${kind}"]`).forEach((list) => show(list, keys));
}

// tick shows times that have grown older.
function tick() {
  for (const cell of document.querySelectorAll('[data-as="ago"], [data-as="since"]')) {
    const el = cell.closest('[data-key]');
    const list = el?.closest('[data-list]');
    const row = list && rows(list.dataset.list).get(el.dataset.key);
    if (!row) continue;
    const text = format(row[cell.dataset.f], cell.dataset.as);
    if (cell.textContent !== text) cell.textContent = text;
  }
}

export function bind() {
  onChange(update);
  setInterval(tick, 1000);
}

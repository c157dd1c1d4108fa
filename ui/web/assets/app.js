// What every page does: listen, show what has changed, act on buttons.

import { listen } from './store.js';
import { bind, kinds, addFilter, refilter } from './bind.js';
import { act } from './act.js';
import { refresh } from './refresh.js';
import { setClock } from './format.js';

const live = document.getElementById('live');
const words = { live: 'live', lost: 'connection lost, trying again', still: 'paused' };

const [visit] = performance.getEntriesByType('navigation');
setClock(Number(document.body.dataset.now), Date.now() - performance.now() + visit.responseStart); // when the node's word came
bind();
act();
refresh();
const wanted = kinds();
if (wanted.length) {
  listen(wanted, (state) => {
    if (live.dataset.v === state) return;
    live.dataset.v = state;
    live.textContent = words[state];
  });
}

const filter = document.getElementById('filter');
if (filter) {
  let word = '';
  addFilter((row, kind) => kind !== 'requests' || !word || Object.values(row).some((v) => typeof v === 'string' && v.toLowerCase().includes(word)));
  filter.addEventListener('input', () => {
    word = filter.value.toLowerCase();
    refilter();
  });
}

const own = { chat: './chat.js', logs: './logs.js', home: './charts.js', mesh: './charts.js' }[document.body.dataset.page];
if (own) import(own);

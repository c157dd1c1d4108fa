// How values are put into words. The node does the same for the first paint.

export const unknown = '–';

const fixed = (v, digits) => {
  const p = 10 ** digits;
  return ((v < 0 ? -Math.round(-v * p) : Math.round(v * p)) / p).toFixed(digits);
};
const two = (n) => String(n).padStart(2, '0');

export function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

const millis = (v) => (v >= 59950 ? span(v) : v >= 999.5 ? `${fixed(v / 1000, 1)} s` : `${fixed(v, v >= 0.05 && v < 9.95 ? 1 : 0)} ms`);

const numbers = {
  k: (v) => (v >= 1e6 ? `${fixed(v / 1e6, 1)} M` : v >= 1e4 ? `${fixed(v / 1e3, 0)} k` : v >= 1e3 ? `${fixed(v / 1e3, 1)} k` : fixed(v, 0)),
  ms: millis,
  seconds: (v) => millis(v * 1000),
  bytes: (v) => (v >= 2 ** 30 ? `${fixed(v / 2 ** 30, 1)} GiB` : v >= 2 ** 20 ? `${fixed(v / 2 ** 20, 0)} MiB` : `${fixed(v / 2 ** 10, 0)} KiB`),
  pct: (v) => `${fixed(v * 100, 0)} %`,
  rate: (v) => fixed(v, v >= 100 ? 0 : 1),
  watts: (v) => `${fixed(v, 0)} W`,
  kwh: (v) => `${fixed(v, 2)} kWh`,
  celsius: (v) => `${fixed(v, 0)} °C`,
};

// ago tells how long ago a time was, by this browser's clock set right by the node's. Years without nodes are no times.
let ahead = 0;
export const setClock = (node, here) => { ahead = here - node; };
const ago = (text) => {
  const t = Date.parse(text);
  return t >= Date.UTC(2000) ? span(Date.now() - ahead - t) : unknown;
};

export function format(v, as) {
  if (v === null || v === undefined || v === '') return unknown;
  if (typeof v === 'boolean') return v ? 'yes' : '';
  if (typeof v === 'number') return (numbers[as] || ((n) => fixed(n, 0)))(v);
  if (as === 'short') return [...v].slice(0, 8).join('');
  if (as === 'ago' || as === 'since') return ago(v);
  return v;
}

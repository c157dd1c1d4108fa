// What the node tells: its lists by their kinds, each a map from keys to rows. One stream keeps them up to date.

const lists = new Map();
const heard = new Set();

export const rows = (kind) => lists.get(kind) || new Map();
export const told = (kind) => lists.has(kind);
export const onChange = (f) => heard.add(f);

function snapshot(told) {
  const list = new Map();
  for (const row of told.rows) list.set(row.key, row);
  lists.set(told.kind, list);
  tell(told.kind, null);
}

function patch(told) {
  const list = lists.get(told.kind);
  if (!list) return; // its snapshot is still to come
  for (const key of told.gone || []) list.delete(key);
  for (const [key, fields] of Object.entries(told.set || {})) list.set(key, { ...list.get(key), ...fields });
  tell(told.kind, new Set(Object.keys(told.set || {})));
}

// tell says which rows have changed; null = any may have.
function tell(kind, keys) {
  for (const f of heard) f(kind, keys);
}

// listen follows the stream for as long as the page is looked at: a tab in the background asks for nothing.
export function listen(kinds, state) {
  let stream = null;
  const open = () => {
    if (stream || document.hidden) return;
    stream = new EventSource(`/api/events?kinds=${kinds.join(',')}`);
    stream.addEventListener('snapshot', (e) => { state('live'); snapshot(JSON.parse(e.data)); });
    stream.addEventListener('patch', (e) => { state('live'); patch(JSON.parse(e.data)); });
    stream.addEventListener('error', () => {
      state('lost');
      if (stream && stream.readyState === EventSource.CLOSED) { // the node refused: asked again later
        stream = null;
        setTimeout(open, 5000);
      }
    });
  };
  const close = () => {
    if (stream) stream.close();
    stream = null;
    state('still');
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  window.addEventListener('pagehide', close);
  window.addEventListener('pageshow', open);
  open();
}

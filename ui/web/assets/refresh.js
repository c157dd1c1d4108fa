// Parts of a page that are shown anew as the node makes them: elements with an id and data-refresh, in seconds. Scripts add
// nothing to such parts: it would be taken away.

import { draw } from './frames.js';

export function refresh() {
  for (const part of document.querySelectorAll('[data-refresh]')) {
    setInterval(() => renew(part.id), 1000 * Math.max(2, Number(part.dataset.refresh)));
  }
}

async function renew(id) {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const next = page.getElementById(id);
    const now = document.getElementById(id);
    if (next && now) draw(now, become(now, next));
  } catch {
    // the node is away: what is shown stays, and the next try comes
  }
}

// become makes an element what another one is, place by place, touching only what is not so yet. It stops after each row
// of a table.
function* become(now, next) {
  if (now.isEqualNode(next)) return;
  if (now.nodeType !== Node.ELEMENT_NODE || now.nodeName !== next.nodeName) {
    now.replaceWith(next);
    return;
  }
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name)) now.removeAttribute(name);
  for (const { name, value } of next.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  const [old, fresh] = [[...now.childNodes], [...next.childNodes]];
  for (const [i, child] of fresh.entries()) {
    if (i < old.length) yield* become(old[i], child);
    else now.append(child);
    if (child.nodeName === 'TR') yield;
  }
  for (const child of old.slice(fresh.length)) child.remove();
}

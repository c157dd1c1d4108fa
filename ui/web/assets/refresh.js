// Parts of a page that are shown anew as the node makes them: elements with an id and data-refresh, in seconds.

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
    if (next && now && next.innerHTML !== now.innerHTML) now.replaceWith(next);
  } catch {
    // the node is away: what is shown stays, and the next try comes
  }
}

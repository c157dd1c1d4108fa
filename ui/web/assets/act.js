// What a page changes: by buttons with data-act, and by forms with it. Each needs the page's token.

const token = document.querySelector('meta[name="viiwork-token"]').content;
const said = document.getElementById('said');

export function say(text, ok) {
  said.hidden = !text;
  said.dataset.v = ok ? 'ok' : 'bad';
  said.textContent = text;
}

// send asks the node to do something, and gives what it answers; null where it refused, which is shown.
export async function send(method, path, body) {
  try {
    const answer = await fetch(path, {
      method, headers: { 'Content-Type': 'application/json', 'X-Viiwork-Token': token }, body: body ? JSON.stringify(body) : undefined,
    });
    if (answer.ok) return await answer.json();
    const told = await answer.json().catch(() => ({}));
    say(told.error?.message || `The node answers ${answer.status}.`);
  } catch {
    say('The node cannot be reached.');
  }
  return null;
}

async function cancel(id) {
  const told = await send('POST', `/api/requests/${part(id)}/cancel`);
  if (told && !told.cancelled) say('It had ended already, or its machine did not end it: its own pages can.');
  return told?.cancelled;
}

const part = encodeURIComponent;
const acts = {
  cancel,
  revert: (name) => send('POST', `/api/aliases/${part(name)}/revert`, {}),
  unalias: (name) => confirm(`Remove the alias ${name}?`) && send('DELETE', `/api/aliases/${part(name)}`),
};
const forms = {
  alias: (f) => send('POST', '/api/aliases', { name: f.get('name'), target: f.get('target') }),
  drain: (f) => send('POST', '/api/drain', { off: f.get('off') === 'true' }).then((done) => done && location.reload()),
};

export function act() {
  document.addEventListener('click', async (e) => {
    const button = e.target.closest('button[data-act]');
    if (!button || !acts[button.dataset.act]) return;
    say('');
    button.disabled = true;
    if (await acts[button.dataset.act](button.dataset.id)) say('Done.', true);
    button.disabled = false;
  });
  document.addEventListener('submit', async (e) => {
    const form = e.target.closest('form[data-act]');
    if (!form || !forms[form.dataset.act]) return;
    e.preventDefault();
    say('');
    if (await forms[form.dataset.act](new FormData(form))) say('Done.', true);
  });
}

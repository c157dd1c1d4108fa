// A conversation with a model of the mesh. It stays in this tab; a session key of its own keeps its turns together.

const form = document.getElementById('ask');
const talk = document.getElementById('talk');
const text = document.getElementById('text');
const send = document.getElementById('send');
const stop = document.getElementById('stop');
let turns = [];
let session = '';
let running = null;

function begin() {
  turns = [];
  session = `chat-${[...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, '0')).join('')}`;
  talk.replaceChildren();
}

function add(kind, words) {
  const line = document.createElement('div');
  line.className = kind;
  line.textContent = words;
  talk.append(line);
  return line;
}

// events reads a stream of server-sent events of the chat API.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split('\n').filter((l) => l.startsWith('data:')).map((l) => l.slice(5)).join('');
      if (data.trim() === '[DONE]') return;
      if (data) yield JSON.parse(data);
    }
  }
}

async function ask(words) {
  add('mine', words);
  turns.push({ role: 'user', content: words });
  const line = add('theirs', '…');
  const meta = add('meta', '');
  const host = form.elements.host.value;
  const started = performance.now();
  let first = 0;
  let said = '';
  let usage = null;
  running = new AbortController();
  try {
    const answer = await fetch(`/v1/chat/completions${host ? `?host=${encodeURIComponent(host)}` : ''}`, {
      method: 'POST', signal: running.signal, headers: { 'Content-Type': 'application/json', 'X-Session-Id': session, 'X-Viiwork-Task': 'chat' },
      body: JSON.stringify({ model: form.elements.model.value, stream: true, stream_options: { include_usage: true }, messages: turns }),
    });
    if (!answer.ok) throw new Error((await answer.json()).error?.message || `the node answers ${answer.status}`);
    for await (const e of events(answer.body)) {
      if (e.error) throw new Error(e.error.message);
      usage = e.usage || usage;
      const delta = e.choices?.[0]?.delta || {};
      const more = delta.content || delta.reasoning_content || '';
      if (more && !first) first = performance.now();
      if (!more) continue;
      said += more;
      line.textContent = said;
    }
    await tell(meta, answer.headers, { started, first, usage });
  } catch (e) {
    meta.textContent = e.name === 'AbortError' ? 'stopped' : `no answer: ${e.message}`;
    if (!said) line.textContent = '';
  }
  if (said) turns.push({ role: 'assistant', content: said });
  running = null;
}

// tell says where the answer came from and how fast.
async function tell(meta, headers, { started, first, usage }) {
  const id = headers.get('X-Viiwork-Request-Id');
  const row = await fetch(`/api/requests/${encodeURIComponent(id)}`).then((r) => (r.ok ? r.json() : {})).catch(() => ({}));
  const parts = [];
  if (row.node || headers.get('X-Viiwork-Node')) parts.push(`on ${row.node || headers.get('X-Viiwork-Node')}`);
  if (row.prompt_tokens && row.cached_tokens !== null) parts.push(`${Math.round(100 * row.cached_tokens / row.prompt_tokens)} % of ${row.prompt_tokens} tokens cached`);
  if (first) parts.push(`first token after ${((first - started) / 1000).toFixed(2)} s`);
  const tokens = usage?.completion_tokens;
  if (first && tokens > 1) parts.push(`${((tokens - 1) / ((performance.now() - first) / 1000)).toFixed(1)} tokens a second`);
  meta.textContent = `${parts.join(' · ')} · `;
  const link = document.createElement('a');
  link.href = `/requests/${encodeURIComponent(id)}`;
  link.textContent = 'why there';
  meta.append(link);
}

form.addEventListener('submit', async (e) => {
  e.preventDefault();
  const words = text.value.trim();
  if (!words || running) return;
  text.value = '';
  send.disabled = true;
  stop.disabled = false;
  await ask(words);
  send.disabled = false;
  stop.disabled = true;
  text.focus();
});
text.addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
    e.preventDefault();
    form.requestSubmit();
  }
});
stop.addEventListener('click', () => running?.abort());
document.getElementById('clear').addEventListener('click', begin);
begin();
send.disabled = false; // until here a click would leave the page

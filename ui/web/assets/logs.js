// Follows an engine's log and shows only the lines that are wanted.

const token = document.querySelector('meta[name="viiwork-token"]').content;
const box = document.getElementById('log');
const follow = document.getElementById('follow');
const only = document.getElementById('only');
const most = 5000; // lines kept
let lines = box ? box.textContent.split('\n') : [];
let running = null;

function show() {
  const word = only.value.toLowerCase();
  const bottom = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
  box.textContent = (word ? lines.filter((l) => l.toLowerCase().includes(word)) : lines).join('\n');
  if (bottom) box.scrollTop = box.scrollHeight;
}

async function read() {
  running = new AbortController();
  const path = `/api/logs?follow=1&tail=200&model=${encodeURIComponent(follow.dataset.model)}`;
  const answer = await fetch(path, { headers: { 'X-Viiwork-Token': token }, signal: running.signal });
  if (!answer.ok) return;
  lines = [''];
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let shown = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const more = value.split('\n');
    lines[lines.length - 1] += more.shift();
    lines.push(...more);
    if (lines.length > most) lines = lines.slice(-most);
    clearTimeout(shown);
    shown = setTimeout(show, 50);
  }
}

if (box) {
  follow.disabled = false;
  only.disabled = false;
  box.scrollTop = box.scrollHeight;
  only.addEventListener('input', show);
  follow.addEventListener('change', () => {
    if (follow.checked) read().catch(() => {}).finally(() => { follow.checked = false; });
    else running?.abort();
  });
}

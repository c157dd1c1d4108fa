// Spreads what is to be drawn over frames, so that none takes long however much has changed: the browser lays out and
// paints what a frame has touched, and for a table that is most of the work.

const budget = 3; // ms of each frame
const patience = 500; // ms: who is behind for longer takes more of each frame, and is done some time
const most = 100; // ms: but no more than that
const jobs = new Map(); // what is drawn: element → generator, which stops where a frame may end
let since = 0; // when there was something to draw, after nothing
let asked = false;

// draw has an element drawn, or drawn anew from the beginning. Sections take turns.
export function draw(el, steps) {
  if (!jobs.size) since = performance.now();
  jobs.set(el, steps);
  ask();
}

function ask() {
  if (!asked) requestAnimationFrame(frame);
  asked = true;
}

// frame draws in one section of the page: the others need no layout then.
function frame() {
  asked = false;
  const now = performance.now();
  const end = now + Math.max(budget, Math.min(most, (now - since - patience) / 8));
  for (const el of [...jobs.keys()]) if (!el.isConnected) jobs.delete(el);
  const [first] = jobs.keys();
  const section = first?.closest('section') || first;
  const mine = [...jobs.keys()].filter((el) => section.contains(el));
  try {
    for (const el of mine) work(el, end);
  } finally {
    for (const el of mine) { // what is left comes after the other sections
      const steps = jobs.get(el);
      if (jobs.delete(el)) jobs.set(el, steps);
    }
    if (jobs.size) ask();
  }
}

// work draws an element until it is done or the time is up.
function work(el, end) {
  while (performance.now() < end) {
    const steps = jobs.get(el);
    if (steps.next().done) {
      if (jobs.get(el) === steps) jobs.delete(el);
      return;
    }
  }
}

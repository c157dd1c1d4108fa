// Spreads what is to be drawn over frames, so that none takes long however much has changed: the browser lays out and
// paints what a frame has touched, and for a table that is most of the work.

const share = 3; // ms of a frame
const jobs = new Map(); // what is drawn: element → generator, which stops where a frame may end
let asked = false;

// draw has an element drawn, or drawn anew from the beginning. What came first is first.
export function draw(el, steps) {
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
  const end = performance.now() + share;
  let section = null;
  for (const [el, steps] of jobs) {
    section ??= el.closest('section') || el;
    if (!section.contains(el)) continue;
    while (performance.now() < end) {
      if (!el.isConnected || steps.next().done) {
        jobs.delete(el);
        break;
      }
    }
    if (performance.now() >= end) break;
  }
  if (jobs.size) ask();
}

// The frame: which page the address asks for, what is fetched how often, and what is said when the
// daemon does not answer.
'use strict';

const OVERVIEW_MS = 2000, RUN_MS = 5000, STALE_MS = 5000;
let page = null;      // the RunPage that is shown, or null
let site = null;      // the last overview
let answered = null;  // when it came

const wantedRun = () => {
  const found = /^#\/run\/(.+)$/.exec(location.hash);
  try { return found ? decodeURIComponent(found[1]) : null; } catch (_) { return null; }
};
const linkTo = run => '#/run/' + encodeURIComponent(run);

// Alerts that a rule keeps from a sink: quiet hours, their cause, a silence.
function heldCount(run) {
  const held = run.alerts.filter(alert => site.held.some(one => one.id === alert.id)).length;
  return held ? ` (${held} held back)` : null;
}

// What happened in the last day, and what it cost.
function lately(run) {
  const since = Date.now() - 86400e3;
  const recent = ((run.goodput || {}).incidents || []).filter(one => Date.parse(one.time) >= since);
  if (!recent.length) return null;
  const last = recent[recent.length - 1];
  const sum = name => recent.reduce((total, one) => total + one[name], 0);
  return el('p', {class: 'muted'}, `Last 24 hours: ${counted(recent.length, 'incident')}, `,
            `${hours(sum('gpu_hours'), sum('node_hours'))}, `,
            `${counted(sum('repeated'), 'iteration')} repeated; the newest: `,
            `${last.kind.replaceAll('_', ' ')} at ${utc(last.time)}.`);
}

const lost = run => (run.goodput ? hours(run.goodput.lost_gpu_hours, run.goodput.lost_node_hours) : '–');

function runCard(run) {
  const level = LEVELS[run.level];
  const usual = run.step_norm_s ? ` / ${age(run.step_norm_s)}` : '';
  return el('li', {class: 'card run ' + run.level},
    el('h2', {}, el('a', {href: linkTo(run.run)}, run.run), ' ',
       el('span', {class: 'badge ' + run.level}, level.sign, ' ', run.state)),
    el('p', {class: 'reason'}, run.reason),
    lately(run),
    run.alerts.length ? el('p', {class: 'alert-count ' + run.level}, `${run.alerts.length} open `,
                           run.alerts.length === 1 ? 'alert: ' : 'alerts: ', run.alerts[0].summary,
                           heldCount(run))
                      : null,
    run.alerts.length && run.alerts[0].command
      ? el('p', {}, 'Run: ', el('code', {}, run.alerts[0].command)) : null,
    progressBar(run.iteration, run.total),
    el('dl', {class: 'row'},
       figure('Iteration', number(run.iteration), run.total ? `of ${number(run.total)}` : ''),
       figure('Loss', sparkline(run.loss_history, 'Loss'), number(run.loss)),
       figure('Step / usual', age(run.step_s || null) + usual),
       figure('Checkpoint', run.checkpoint ? age(run.checkpoint.age_s) + ' old' : 'none'),
       figure('Time left', age(run.eta_s)),
       figure('Goodput', run.goodput ? percent(run.goodput.ettr) : '–'),
       figure('Lost', lost(run)),
       figure('Restarts left', `${run.budget.restarts_left} of ${run.budget.restarts_total}`)));
}

function siteNotes() {
  const notes = site.alerts.map(alert => [alert.summary, ...site.held
    .filter(held => held.id === alert.id).map(heldText)].join(' — '));
  for (const sink of site.failing)
    notes.push(`alert sink ${sink.sink} (${sink.kind}) of ${sink.run} does not deliver: ${sink.why}`);
  if (site.health.scheduler_trouble) notes.push('scheduler: ' + site.health.scheduler_trouble);
  if (site.nodes_out)
    notes.push(`nodes that are excluded, suspect or down: ${site.nodes_out} (${site.nodes_out_names.join(', ')})`);
  return notes.length ? el('ul', {class: 'card notes'}, notes.map(note => el('li', {}, note))) : null;
}

function drawOverview() {
  const place = document.getElementById('main');
  if (page || !site) return;
  show(place, el('h1', {class: 'hidden-title'}, 'All runs'), siteNotes(),
       site.runs.length
         ? el('ul', {class: 'runs'}, site.runs.map(runCard))
         : el('p', {class: 'card'}, 'No run is under supervision. ',
              el('code', {}, 'stoker run RUN.yaml'), ' starts one.'));
}

function drawTop() {
  const level = LEVELS[site.level];
  const verdict = document.getElementById('verdict');
  verdict.className = 'verdict ' + site.level;
  const text = `${level.sign} ${site.sentence}`;
  if (verdict.textContent !== text) verdict.textContent = clean(text);
  document.title = `${level.sign} stoker: ${site.sentence}`;
  document.getElementById('clock').textContent = utcClock(Date.now()) + ' UTC';
  document.getElementById('footer').textContent =
    clean(`${site.health.build} · up ${age(site.health.uptime_s)} · ${number(site.health.journal_rows)} ` +
          'journal rows · read-only: act with the stoker command');
}

function drawPage() {
  const name = wantedRun(), place = document.getElementById('main');
  if (name === null) {
    if (page) { page = null; delete place.dataset.shown; }
    return drawOverview();
  }
  if (!page || page.name !== name) {
    page = new RunPage(name);
    delete place.dataset.shown;
    place.replaceChildren(page.node);
    refreshRun();
  }
  const run = site && site.runs.find(known => known.run === name);
  if (run) page.update(run);
  else if (site) show(page.head, el('p', {}, 'There is no run named ', el('b', {}, name), '. ',
                                    el('a', {href: '#/'}, 'All runs')));
}

function drawStale() {
  const stale = document.getElementById('stale');
  const silent = answered === null ? 0 : Date.now() - answered;
  stale.hidden = silent < STALE_MS;
  if (!stale.hidden)
    stale.textContent = `stokerd has not answered for ${age(silent / 1000)}: what is shown is of ` +
      `${utc(answered)}. Trainings go on without it; run: stoker doctor`;
}

async function refreshOverview() {
  try {
    site = await ask('/api/v1/overview');
    answered = Date.now();
    drawTop();
    drawPage();
  } catch (_) {
    answered = answered ?? Date.now() - STALE_MS;  // nothing ever came
  }
  drawStale();
  setTimeout(refreshOverview, OVERVIEW_MS);
}

async function refreshRun() {
  const mine = page;
  if (!mine) return;
  try { await mine.refresh(); } catch (_) { /* drawStale says it */ }
  if (page === mine) setTimeout(() => page === mine && refreshRun(), RUN_MS);
}

window.addEventListener('hashchange', () => {
  drawPage();
  document.getElementById('main').focus({preventScroll: true});  // it would go below the bar
  window.scrollTo(0, 0);
});
setInterval(drawStale, 1000);  // also while an answer is awaited
refreshOverview();

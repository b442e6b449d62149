// The page of one run: what is going on, charts, incidents, nodes, checkpoints, log.
'use strict';

function figure(name, value, note) {
  return el('div', {class: 'figure'}, el('dt', {}, name),
            el('dd', {}, value, note ? el('small', {}, note) : null));
}

function spent(spend) {
  if (!spend) return '';
  const budget = spend.budget ? ` of ${number(spend.budget)}` : '';
  return `${spend.gpu_hours.toFixed(2)}${budget} GPU hours spent`;
}

function figures(run) {
  const f = run.forecast, step = run.step_norm_s;
  const left = f ? `${age(f.low_s)} to ${age(f.high_s)}` : '';
  return el('dl', {class: 'figures'},
    figure('Iteration', number(run.iteration),
           run.total ? `of ${number(run.total)}, ${percent(run.iteration / run.total)}` : ''),
    figure('Time left', age(run.eta_s), left),
    figure('Loss', number(run.loss)),
    figure('Step', age(run.step_s || null), step ? `usually ${age(step)}` : ''),
    figure('Checkpoint', run.checkpoint ? age(run.checkpoint.age_s) + ' old' : 'none',
           run.checkpoint ? `iteration ${number(run.checkpoint.iteration)}` : ''),
    figure('Goodput', run.goodput ? percent(run.goodput.ettr) : '–',
           run.goodput && run.goodput.mfu ? `MFU ${percent(run.goodput.mfu)}` : ''),
    figure('Lost', lost(run), spent(run.spend)),
    figure('Restarts', String(run.restarts),
           `${run.budget.restarts_left} of ${run.budget.restarts_total} left`),
    figure('Job', run.job || 'none', run.nodes.length ? counted(run.nodes.length, 'node') : ''));
}

// Why an alert was not sent to a sink, and until when.
function heldText(held) {
  return `Not sent${held.sink ? ' to ' + held.sink : ''}: ${held.rule}, ` +
         (held.until ? `until ${utc(held.until)}.` : 'until that is over.');
}

function alertList(alerts, allHeld) {
  if (!alerts.length) return el('p', {class: 'muted'}, 'Nothing to do: no alert is open.');
  return el('ul', {class: 'alerts'}, alerts.map(alert =>
    el('li', {class: 'alert ' + alert.severity},
       el('b', {}, alert.severity, ': '), alert.summary,
       alert.acknowledged ? el('span', {class: 'muted'}, ' (acknowledged)') : null,
       el('p', {class: 'muted'}, alert.reason, ' Since ', utc(alert.since), '.'),
       alert.command ? el('p', {}, 'Run: ', el('code', {}, alert.command)) : null,
       alert.acknowledged ? null
         : el('p', {}, 'Acknowledge: ', el('code', {}, `stoker ack ${alert.id}`)),
       allHeld.filter(held => held.id === alert.id).map(held =>
         el('p', {class: 'held'}, heldText(held))))));
}

// Its cost by status, which counts from two seconds around its first sign.
function costOf(incident, costs) {
  const found = costs.find(cost => Math.abs(Date.parse(cost.time) - Date.parse(incident.from)) <= 2000);
  return found ? `, ${hours(found.gpu_hours, found.node_hours)}` : '';
}

function incidentList(incidents, costs) {
  if (!incidents.length) return el('p', {class: 'muted'}, 'No incident so far.');
  return el('div', {}, [...incidents].reverse().slice(0, 50).map(incident =>
    el('details', {class: 'incident' + (incident.planned ? ' planned' : '')},
       el('summary', {}, el('time', {}, utc(incident.from)), ' ', incident.title,
          el('span', {class: 'muted'},
             incident.to ? ' — ' + age((Date.parse(incident.to) - Date.parse(incident.from)) / 1000)
                         : ' — not over',
             incident.repeated ? `, ${counted(incident.repeated, 'iteration')} repeated` : '',
             costOf(incident, costs))),
       el('ol', {}, incident.lines.map(line =>
          el('li', {}, el('time', {}, utcClock(line.time)), ' ', line.text))))));
}

function checkpointTable(checkpoints) {
  if (!checkpoints.length) return el('p', {class: 'muted'}, 'No checkpoint is known.');
  const rows = [...checkpoints].reverse().slice(0, 12);
  return el('div', {class: 'scroll', tabindex: 0, 'aria-label': 'Checkpoints'}, el('table', {},
    el('thead', {}, el('tr', {}, ['Iteration', 'Saved', 'Size', 'Took', 'State'].map(name =>
      el('th', {scope: 'col'}, name)))),
    el('tbody', {}, rows.map(saved => el('tr', {},
      el('td', {}, number(saved.iteration)), el('td', {}, utc(saved.time)),
      el('td', {}, bytes(saved.bytes)), el('td', {}, age(saved.seconds)),
      el('td', {}, saved.fate || 'kept'))))));
}

// Commands that run on checkpoints (after: of RUN.yaml): what each does now, and how the last ended.
function followJob(job) {
  const words = `iteration ${number(job.iteration)} ${job.state}`;
  return el('div', {}, words, el('small', {class: 'block words'},
    [job.job ? 'job ' + job.job : 'not submitted yet', job.attempt > 1 ? 'try ' + job.attempt : '',
     job.since ? 'since ' + utc(job.since) : ''].filter(part => part).join(', ')));
}

function followResult(last) {
  if (!last) return el('span', {class: 'muted'}, 'none yet');
  return el('div', {class: last.good ? null : 'failed'},
    `iteration ${number(last.iteration)} ` + (last.good ? `done in ${age(last.s)}` : 'given up'),
    last.text ? el('small', {class: 'block words'}, last.text) : null);
}

function followerTable(followers) {
  const names = ['Command', 'Now', 'Waiting', 'Behind', 'Last', 'So far'];
  return el('div', {class: 'scroll', tabindex: 0, 'aria-label': 'Commands on checkpoints'},
    el('table', {class: 'followers'},
      el('thead', {}, el('tr', {}, names.map(name => el('th', {scope: 'col'}, name)))),
      el('tbody', {}, followers.map(f => el('tr', {},
        el('th', {scope: 'row'}, f.name, el('small', {class: 'block'}, `every ${number(f.every)}`)),
        el('td', {}, f.jobs.length ? f.jobs.map(followJob) : el('span', {class: 'muted'}, 'nothing')),
        el('td', {}, f.waiting.length ? f.waiting.map(number).join(', ') : '–'),
        el('td', {}, f.behind ? counted(f.behind, 'iteration') : '–'),
        el('td', {}, followResult(f.last)),
        el('td', {}, `${number(f.good)} done`,
           f.given_up ? el('div', {}, `${number(f.given_up)} given up`) : null,
           f.skipped ? el('div', {}, `${number(f.skipped)} left out`) : null))))));
}

function section(title, place) {
  return el('section', {class: 'card'}, el('h2', {}, title), place);
}

class RunPage {
  constructor(name) {
    this.name = name;
    this.begun = 0;
    this.costs = [];  // of the incidents, by status
    const place = () => el('div');
    this.head = place();
    this.line = place();
    this.list = place();
    this.heat = place();
    this.goodput = place();
    this.saved = place();
    this.followers = place();
    this.log = el('pre', {class: 'log', tabindex: 0, 'aria-label': 'End of the log'});
    this.logName = el('p', {class: 'muted'});
    this.board = new Board(name);
    this.node = el('div', {}, this.head,
      section('Timeline', el('div', {}, this.line, this.list)), this.board.node,
      el('div', {class: 'two'}, section('Nodes and ranks', this.heat),
         section('Where the time went', this.goodput)),
      section('Checkpoints', this.saved), this.followers,
      section('Log', el('div', {}, this.logName, this.log)));
  }

  // What the overview has anyway.
  update(run) {
    const level = LEVELS[run.level];
    this.costs = (run.goodput || {}).incidents || [];
    show(this.head,
      el('p', {class: 'back'}, el('a', {href: '#/'}, '← all runs')),
      el('h1', {}, run.run, ' ', el('span', {class: 'badge ' + run.level},
         level.sign, ' ', run.state)),
      el('p', {class: 'reason'}, run.reason,
         el('span', {class: 'muted'}, ' Since ', utc(run.since), '.')),
      run.conditions.length
        ? el('p', {class: 'muted'}, 'Conditions: ', run.conditions.join(', ').replaceAll('_', ' '))
        : null,
      alertList(run.alerts, site.held), progressBar(run.iteration, run.total), figures(run));
    show(this.goodput, (run.goodput && timeShares(run.goodput.spent_s)) ||
                       el('p', {class: 'muted'}, 'Nothing is known yet.'));
    show(this.followers, run.followers.length
      ? section('Commands on checkpoints', followerTable(run.followers)) : null);
  }

  async refresh() {
    const base = `/api/v1/runs/${encodeURIComponent(this.name)}`;
    const [incidents, nodes, checkpoints] =
      await Promise.all(['incidents', 'nodes', 'checkpoints'].map(what => ask(`${base}/${what}`)));
    this.board.incidents = incidents.incidents;
    await this.board.load();
    const firsts = this.board.charts.filter(chart => chart.points.length)
                       .map(chart => chart.points[0][0]);
    if (!this.begun && firsts.length && !this.board.window) this.begun = Math.min(...firsts);
    const starts = incidents.incidents.map(incident => Date.parse(incident.from));
    const begin = Math.min(this.begun || Date.now(), ...starts);
    show(this.line, timeline(incidents.incidents, begin, Date.now()));
    const shown = JSON.stringify([incidents, this.costs]);
    if (shown !== this.shown) {
      this.shown = shown;
      show(this.list, incidentList(incidents.incidents, this.costs));
    }
    show(this.heat, nodes.nodes.length ? heatMap(nodes)
                                       : el('p', {class: 'muted'}, 'No node is in use.'));
    show(this.saved, checkpointTable(checkpoints.checkpoints));
    await this.refreshLog(base);
  }

  async refreshLog(base) {
    let text = '', name = '';
    try {
      const log = await ask(`${base}/logs?lines=60`);
      text = log.lines.map(clean).join('\n');
      name = log.log;
    } catch (error) {
      name = error.message;
    }
    this.logName.textContent = clean(name);
    if (this.log.textContent === text) return;
    const atEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 8;
    this.log.textContent = text;
    if (atEnd) this.log.scrollTop = this.log.scrollHeight;
  }
}

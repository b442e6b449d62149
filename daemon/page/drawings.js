// Drawings in SVG: sparkline, progress, shares of time, incident timeline, heat map of ranks. Each
// has a <title> that says in words what it shows.
'use strict';

const TIME_USES = {
  train: 'new iterations', repeated: 'repeated iterations', slow: 'slower than usual',
  checkpoint: 'saving', start: 'starting', queue: 'in the queue', down: 'down', held: 'on hold',
};

function picture(width, height, className, title, ...children) {
  return svg('svg', {viewBox: `0 0 ${width} ${height}`, class: className, role: 'img',
                     'aria-label': title, preserveAspectRatio: 'none'},
             svg('title', {}, title), ...children);
}

function sparkline(values, what) {
  const known = values.filter(isFinite);
  if (known.length < 2) return el('span', {class: 'muted'}, '–');
  const low = Math.min(...known), high = Math.max(...known);
  const x = i => (i * 118 / (values.length - 1) + 1).toFixed(1);
  const y = v => (high === low ? 14 : 26 - (v - low) / (high - low) * 24).toFixed(1);
  const points = values.map((v, i) => (isFinite(v) ? `${x(i)},${y(v)}` : '')).join(' ');
  return picture(120, 28, 'spark',
                 `${what}: from ${number(known[0])} to ${number(known[known.length - 1])}, ` +
                 `lowest ${number(low)}, highest ${number(high)}`,
                 svg('polyline', {points, class: 'spark-line'}));
}

function progressBar(done, total) {
  const share = total > 0 ? Math.min(1, done / total) : 0;
  return picture(100, 4, 'progress', `${done} of ${total} iterations`,
                 svg('rect', {width: 100, height: 4, class: 'progress-all'}),
                 svg('rect', {width: (100 * share).toFixed(2), height: 4, class: 'progress-done'}));
}

// Where the time went, one bar.
function timeShares(spent) {
  const uses = Object.keys(TIME_USES).filter(use => use !== 'held' && spent[use] > 0);
  const whole = uses.reduce((sum, use) => sum + spent[use], 0);
  if (!whole) return null;
  let at = 0;
  const parts = uses.map(use => {
    const width = 100 * spent[use] / whole;
    const part = svg('rect', {x: at.toFixed(3), width: width.toFixed(3), height: 10,
                              class: 'use-' + use});
    at += width;
    return part;
  });
  const words = uses.map(use => `${TIME_USES[use]} ${percent(spent[use] / whole)}`).join(', ');
  return el('div', {},
            picture(100, 10, 'shares', 'Where the time went: ' + words, ...parts),
            el('ul', {class: 'legend'}, uses.map(use => el('li', {},
              el('span', {class: 'key use-' + use, 'aria-hidden': 'true'}),
              `${TIME_USES[use]} ${percent(spent[use] / whole)} (${age(spent[use])})`))));
}

function incidentWords(incident) {
  const last = incident.lines[incident.lines.length - 1];
  const lasted = incident.to ? age((Date.parse(incident.to) - Date.parse(incident.from)) / 1000)
                             : 'not over';
  return `${incident.title} (${utc(incident.from)}, ${lasted}` +
         (incident.repeated ? `, ${counted(incident.repeated, 'iteration')} repeated` : '') + ')' +
         (last ? ': ' + last.text : '');
}

// The run's whole time from left to right; a band for each incident.
function timeline(incidents, begin, end) {
  const span = Math.max(end - begin, 1000);
  const x = time => 1000 * (Math.min(Math.max(time, begin), end) - begin) / span;
  const bands = incidents.map(incident => {
    const from = x(Date.parse(incident.from));
    const to = x(incident.to ? Date.parse(incident.to) : end);
    return svg('rect', {x: from.toFixed(1), y: 4, width: Math.max(to - from, 3).toFixed(1),
                        height: 20, class: incident.planned ? 'band-planned' : 'band-trouble'},
               svg('title', {}, incidentWords(incident)));
  });
  const trouble = incidents.filter(incident => !incident.planned).length;
  return el('div', {},
            picture(1000, 28, 'timeline',
                    `${counted(trouble, 'incident')} and ${counted(incidents.length - trouble, 'planned stop')} from ` +
                    `${utc(begin)} to ${utc(end)}`,
                    svg('rect', {y: 4, width: 1000, height: 20, class: 'band-good'}), ...bands),
            el('p', {class: 'ends muted'}, el('span', {}, utc(begin)), el('span', {}, utc(end))));
}

// How grave an age is: 0 fresh … 4 at the limit.
function ageStep(seconds, limit) {
  if (seconds === null || seconds === undefined) return 0;
  const share = seconds / Math.max(limit, 1e-9);
  return share < 0.1 ? 0 : share < 0.25 ? 1 : share < 0.5 ? 2 : share < 1 ? 3 : 4;
}

// One row a node, one cell a rank. Agents report the ages of the eight ranks with the oldest
// progress; all others are fresher than those.
function heatMap(nodes) {
  const ages = new Map((nodes.oldest || []).map(rank => [rank.rank, rank]));
  const known = (nodes.oldest || []).map(rank => rank.age_s).filter(a => a !== null);
  const freshest = known.length ? Math.min(...known) : null;
  const widest = Math.max(1, ...nodes.nodes.map(node => node.ranks));
  const columns = Math.min(widest, 16), cell = 18, left = 96;
  const parts = [];
  let y = 0;
  for (const node of nodes.nodes) {
    parts.push(svg('text', {x: 0, y: y + 13, class: 'node-name node-' + node.state}, node.node));
    for (let i = 0; i < Math.max(node.ranks, 1); ++i) {
      const rank = node.first_rank + i, told = ages.get(rank);
      const slow = nodes.slowest && nodes.slowest.rank === rank;
      const words = `rank ${rank} on ${node.node}` +
        (told ? `: last progress ${age(told.age_s)} ago, ${told.phase}, iteration ${told.iteration}`
              : freshest === null ? ': no age reported' : `: less than ${age(freshest)} ago`) +
        (slow ? `; slowest: computes ${age(nodes.slowest.s)}, median ${age(nodes.slowest.median_s)}`
              : '') + (node.state === 'ok' ? '' : `; node is ${node.state}`);
      parts.push(svg('rect', {x: left + (i % columns) * (cell + 2),
                              y: y + Math.floor(i / columns) * (cell + 2), width: cell,
                              height: cell, rx: 3,
                              class: `rank heat-${ageStep(told ? told.age_s : 0, nodes.limit_s)}` +
                                     (slow ? ' slowest' : '') +
                                     (node.state === 'ok' ? '' : ' out-' + node.state)},
                     svg('title', {}, words)));
    }
    y += Math.ceil(Math.max(node.ranks, 1) / columns) * (cell + 2) + 6;
  }
  const oldest = (nodes.oldest || [])[0];
  const title = `${counted(nodes.world_size, 'rank')} on ${counted(nodes.nodes.length, 'node')}` +
    (oldest ? `; oldest progress: rank ${oldest.rank} on ${oldest.node}, ${age(oldest.age_s)} ago` : '');
  const drawing = svg('svg', {class: 'heat', role: 'img', 'aria-label': title,
                              width: left + columns * (cell + 2), height: Math.max(y, cell)},
                      svg('title', {}, title), ...parts);
  return el('div', {}, el('div', {class: 'scroll', tabindex: 0, 'aria-label': 'Heat map'}, drawing),
            el('p', {class: 'muted'}, title + '. Colour: age of the last progress as a share of the limit ' +
               `(${age(nodes.limit_s)}).`));
}

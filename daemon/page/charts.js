// A run's charts with dygraphs: a line for the usual value, a band from the lowest to the highest
// of all iterations behind a point, incidents as bands behind them. Dragging chooses a stretch, for
// all charts; a double click shows everything.
'use strict';

const CHARTS = [
  {metric: 'loss', title: 'Loss'},
  {metric: 'grad_norm', title: 'Gradient norm'},
  {metric: 'lr', title: 'Learning rate'},
  {metric: 'step_s', title: 'Step time', unit: 's'},
  {metric: 'samples_per_s', title: 'Throughput', unit: 'samples/s', instead: 'tflops',
   insteadUnit: 'TFLOP/s'},
  {metric: 'goodput', title: 'Goodput', format: percent},
];

// Its legend writes style attributes, which the page's security policy forbids.
if (window.Dygraph && Dygraph.Plugins)
  Dygraph.PLUGINS = Dygraph.PLUGINS.filter(plugin => plugin !== Dygraph.Plugins.Legend);

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Chart {
  constructor(spec, board) {
    this.spec = spec;
    this.board = board;
    this.points = [];
    this.unit = spec.unit;
    this.caption = el('span', {class: 'muted'});
    this.readout = el('p', {class: 'readout', 'aria-live': 'polite', hidden: true});
    this.canvas = el('div', {class: 'canvas', role: 'img', tabindex: 0, 'aria-label': spec.title,
                             onkeydown: event => this.step(event),
                             onmousemove: event => this.hover(event),
                             onmouseleave: () => this.say(''), onblur: () => this.say('')});
    this.figure = el('figure', {class: 'card chart', 'data-metric': spec.metric},
                     el('figcaption', {}, el('b', {}, spec.title), ' ', this.caption),
                     this.canvas, this.readout);
  }

  text(value) {
    return this.spec.format ? this.spec.format(value)
                            : number(value) + (this.unit ? ' ' + this.unit : '');
  }

  async load(stretch) {
    const query = metric => `/api/v1/runs/${encodeURIComponent(this.board.run)}/series` +
      `?metric=${metric}&points=400${stretch}`;
    let series = await ask(query(this.spec.metric));
    if (!series.points.length && this.spec.instead) {
      series = await ask(query(this.spec.instead));
      this.unit = this.spec.insteadUnit;
    }
    this.points = series.points;
    this.draw();
  }

  summary() {
    if (!this.points.length) return 'no values so far';
    const last = this.points[this.points.length - 1];
    const low = Math.min(...this.points.map(p => p[2]));
    const high = Math.max(...this.points.map(p => p[4]));
    return `${this.text(last[3])} at iteration ${number(last[1])}; lowest ${this.text(low)}, ` +
           `highest ${this.text(high)}`;
  }

  draw() {
    this.caption.textContent = this.summary();
    this.canvas.setAttribute('aria-label', `${this.spec.title}: ${this.summary()}`);
    const rows = this.points.map(p => [new Date(p[0]), [p[2], p[3], p[4]]]);
    if (!rows.length) return;
    const options = {
      file: rows, customBars: true, labels: ['time', this.spec.title], labelsUTC: true,
      colors: [colour('--accent')], strokeWidth: 1.6, fillAlpha: 0.3, legend: 'never',
      gridLineColor: colour('--line'), axisLineColor: colour('--line'), gridLineWidth: 1,
      axisLabelFontSize: 11, dateWindow: this.board.window, animatedZooms: false,
      drawPoints: rows.length < 60, pointSize: 1.6, highlightCircleSize: 4,
      axes: {y: {axisLabelFormatter: value => (this.spec.format || number)(value),
                 axisLabelWidth: 58},
             x: {axisLabelWidth: 62, drawGrid: false}},
      underlayCallback: (context, area, graph) => this.bands(context, area, graph),
      zoomCallback: (from, to, ranges) => this.board.zoom(ranges && !this.all(from, to) ? [from, to] : null),
    };
    if (this.graph) return this.graph.updateOptions(options);
    const {file, ...rest} = options;
    this.graph = new Dygraph(this.canvas, file, rest);
  }

  all(from, to) {
    return this.points.length && from <= this.points[0][0] &&
           to >= this.points[this.points.length - 1][0];
  }

  bands(context, area, graph) {
    for (const incident of this.board.incidents) {
      const from = graph.toDomXCoord(Date.parse(incident.from));
      const to = graph.toDomXCoord(incident.to ? Date.parse(incident.to) : Date.now());
      const left = Math.max(from, area.x), right = Math.min(Math.max(to, from + 3), area.x + area.w);
      if (right <= left) continue;
      context.fillStyle = colour(incident.planned ? '--band-planned' : '--band-trouble');
      context.fillRect(left, area.y, right - left, area.h);
    }
  }

  incidentAt(time, slack) {
    return this.board.incidents.find(incident =>
      time >= Date.parse(incident.from) - slack &&
      time <= (incident.to ? Date.parse(incident.to) : Infinity) + slack);
  }

  hover(event) {
    if (!this.graph) return;
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left;
    const time = this.graph.toDataXCoord(x);
    this.tell(time, this.graph.toDataXCoord(x + 4) - time);
  }

  tell(time, slack) {
    const near = this.points.reduce((best, p) =>
      !best || Math.abs(p[0] - time) < Math.abs(best[0] - time) ? p : best, null);
    const incident = this.incidentAt(time, slack);
    if (!near) return;
    const range = near[2] === near[4] ? '' : ` (${this.text(near[2])} to ${this.text(near[4])})`;
    this.say(incident ? incidentWords(incident)
                      : `${utc(near[0])}, iteration ${number(near[1])}: ${this.text(near[3])}${range}`,
             Boolean(incident));
  }

  say(text, trouble) {
    this.readout.textContent = clean(text);
    this.readout.hidden = !text;
    this.readout.classList.toggle('trouble', Boolean(trouble));
  }

  // Arrow keys walk from point to point.
  step(event) {
    const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!by || !this.graph || !this.points.length) return;
    event.preventDefault();
    const last = this.points.length - 1;
    this.at = Math.min(last, Math.max(0, (this.at ?? last + 1) + by));
    this.graph.setSelection(this.at);
    this.tell(this.points[this.at][0], 0);
  }
}

class Board {
  constructor(run) {
    this.run = run;
    this.window = null;
    this.incidents = [];
    this.charts = CHARTS.map(spec => new Chart(spec, this));
    this.node = el('div', {class: 'charts'}, this.charts.map(chart => chart.figure));
  }

  stretch() {
    if (!this.window) return '';
    const [from, to] = this.window.map(time => encodeURIComponent(new Date(time).toISOString()));
    return `&from=${from}&to=${to}`;
  }

  zoom(stretch) {
    this.window = stretch;
    this.load();
  }

  async load() {
    await Promise.all(this.charts.map(chart => chart.load(this.stretch())));
  }
}

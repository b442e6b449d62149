// Small words: elements, numbers, ages, times. All text reaches the page through text nodes.
'use strict';

// Control characters and those that reorder text are shown as "?".
function clean(text) {
  return String(text ?? '').replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '?');
}

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : clean(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
  return node;
}

// el('p', {class: 'note'}, 'text', el('b', {}, 'bold'))
const el = (tag, attributes, ...children) =>
  put(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  put(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

const LEVELS = {
  critical: {sign: '✖', word: 'needs a person'},
  warning: {sign: '!', word: 'trouble, handled'},
  ok: {sign: '✔', word: 'well'},
  over: {sign: '■', word: 'over'},
};

function number(value) {
  if (value === null || value === undefined || !isFinite(value)) return '–';
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size >= 1e4) return Number.isInteger(value) ? value.toLocaleString('en') : value.toPrecision(5);
  if (size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

// "1 node", "2 nodes"
const counted = (count, what) => `${number(count)} ${what}${count === 1 ? '' : 's'}`;

const percent = share => (share === null || share === undefined ? '–' : (100 * share).toFixed(1) + ' %');

// The two largest units: "1 d 2 h", "12 min", "3.2 s".
function age(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return '–';
  const s = Math.max(0, seconds);
  if (s < 1) return Math.round(s * 1000) + ' ms';
  if (s < 10) return s.toFixed(1) + ' s';
  if (s < 90) return Math.round(s) + ' s';
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min']];
  const first = units.findIndex(([size]) => s >= size);
  const [size, name] = units[first];
  const rest = units[first + 1];
  const more = rest ? Math.floor((s % size) / rest[0]) : 0;
  return `${Math.floor(s / size)} ${name}` + (more ? ` ${more} ${rest[1]}` : '');
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (count >= 1024 && i < units.length - 1) { count /= 1024; ++i; }
  return number(count) + ' ' + units[i];
}

// "0.04 GPU hours", as status and report have it; node hours where GPUs a node are not known.
function hours(gpuHours, nodeHours) {
  return gpuHours > 0 || !nodeHours ? `${(gpuHours || 0).toFixed(2)} GPU hours`
                                    : `${nodeHours.toFixed(2)} node hours`;
}

const utc = time => new Date(time).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
const utcClock = time => new Date(time).toISOString().slice(11, 19);

async function ask(path) {
  const answer = await fetch(path, {cache: 'no-cache', credentials: 'same-origin',
                                    signal: AbortSignal.timeout(8000)});
  const document = await answer.json();
  if (!answer.ok) throw new Error(document.error || 'status ' + answer.status);
  return document;
}

// Replaces what a place shows only when it would show something else.
function show(place, ...children) {
  const next = el('div', {}, ...children);
  if (place.dataset.shown === next.innerHTML) return;
  place.dataset.shown = next.innerHTML;
  place.replaceChildren(...next.childNodes);
}

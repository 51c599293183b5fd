// Curves, events and phases over time, on canvases: drawn once, with the line of the present over them.

const left = 58, right = 6, axis = 13; // of a chart, in pixels
const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3], [10, 4]];
const inks = ['--u3', '--queue', '--bad', '--pick', '--mark', '--ink'];

function ink(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

class Chart {
  constructor(parent, title, height, draw, at) {
    const h = document.createElement('h3');
    h.textContent = title;
    this.canvas = document.createElement('canvas');
    this.canvas.setAttribute('role', 'img');
    this.canvas.setAttribute('aria-label', title);
    parent.append(h, this.canvas);
    this.title = h; this.height = height; this.draw = draw;
    const jump = e => { if (e.buttons & 1 || e.type === 'click') at(this.time(e.offsetX), e.offsetY); };
    this.canvas.addEventListener('click', jump);
    this.canvas.addEventListener('pointermove', jump);
  }

  time(x) { return this.from + (x - left) / Math.max(1, this.width - left - right) * (this.until - this.from); }
  x(t) { return left + (t - this.from) / Math.max(1e-9, this.until - this.from) * (this.width - left - right); }

  // paint draws all anew, between two times.
  paint(from, until) {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth || this.canvas.parentNode.clientWidth || 300;
    this.from = from; this.until = until;
    this.canvas.width = this.width * scale;
    this.canvas.height = (this.height + axis) * scale;
    this.canvas.style.height = this.height + axis + 'px';
    const c = this.canvas.getContext('2d');
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.font = '10px system-ui, sans-serif';
    c.fillStyle = ink('--dim');
    this.draw(c, this);
    this.drawTicks(c);
    this.kept = document.createElement('canvas');
    this.kept.width = this.canvas.width; this.kept.height = this.canvas.height;
    this.kept.getContext('2d').drawImage(this.canvas, 0, 0);
    this.pen = ink('--ink');
  }

  // drawTicks writes times below the chart, at round distances of 70 pixels or more.
  drawTicks(c) {
    const least = (this.until - this.from) * 70 / Math.max(70, this.width - left - right), ten = 10 ** Math.floor(Math.log10(least));
    const gap = [1, 2, 5, 10].map(m => m * ten).find(g => g >= least);
    c.fillStyle = ink('--dim');
    c.textAlign = 'center';
    for (let i = Math.ceil(this.from / gap); i * gap <= this.until; i++) {
      const x = this.x(i * gap);
      c.fillRect(x, this.height - 3, 1, 5);
      c.fillText(tickText(i * gap, gap), Math.min(x, this.width - 20), this.height + axis - 2);
    }
    c.textAlign = 'start';
  }

  // now draws the line of the present.
  now(t) {
    if (!this.kept) return;
    const c = this.canvas.getContext('2d'), scale = window.devicePixelRatio || 1;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    c.drawImage(this.kept, 0, 0);
    c.fillStyle = this.pen;
    c.fillRect(this.x(t) * scale, 0, Math.max(1, scale), this.canvas.height);
  }
}

// curves draws series: {name, value(k)}, against the ticks of a run; most is the value at the top.
function curves(c, chart, run, series, most, text) {
  const bottom = chart.height - 3, top = 12;
  most = most || 1;
  c.fillText(text(most), 0, top + 4);
  c.fillText('0', 0, bottom);
  c.strokeStyle = ink('--line');
  c.strokeRect(left, top, chart.width - left - right, bottom - top);
  let at = left + 4;
  series.forEach((s, i) => {
    c.strokeStyle = c.fillStyle = ink(inks[i % inks.length]);
    c.setLineDash(dashes[i % dashes.length]);
    c.lineWidth = 1.4;
    c.beginPath();
    run.ticks.forEach((t, k) => {
      const y = bottom - Math.min(1, s.value(k) / most) * (bottom - top), before = k ? run.ticks[k - 1] : Math.max(0, t - (run.ticks[1] - t || 0));
      if (k === 0) c.moveTo(chart.x(before), y); else c.lineTo(chart.x(before), y);
      c.lineTo(chart.x(t), y);
    });
    c.stroke();
    c.setLineDash([]);
    if (at < chart.width - 30) c.fillText(s.name, at, top - 3);
    at += c.measureText(s.name).width + 12;
  });
}

// signs are the kinds of events that have a row of their own, with what they are drawn as.
const signs = {
  cut: '✕', restore: '✓', lost: '×', drop: '▾', detect: '◉', port: '◇', link: '◆', quench: '●', gnmi: '◇', verdict: '◈', report: '◔', notice: '▸', push: '▸',
  write: '□', repair: '▣', change: '▤', refused: '▨', flip: '■', timeout: '◔', retransmit: '↻', suspect: '?', drain: '⊘', done: '|',
};

function eventRows(run) {
  const kinds = [...new Set(run.events.map(e => e.k))];
  const order = Object.keys(signs);
  kinds.sort((a, b) => (order.indexOf(a) + 99) % 99 - (order.indexOf(b) + 99) % 99);
  return run.marks.length ? [...kinds, 'mark'] : kinds;
}

function drawEvents(c, chart, run) {
  const rows = eventRows(run);
  rows.forEach((kind, i) => {
    const y = 10 + 12 * i;
    c.fillStyle = ink('--dim');
    c.fillText(kind, 0, y + 3);
    c.fillStyle = ink(['cut', 'lost', 'drop', 'timeout'].includes(kind) ? '--bad' : kind === 'mark' ? '--mark' : '--ink');
    let last = -9;
    const put = t => {
      const x = chart.x(t);
      if (x - last < 2) return; // they would lie on each other
      c.fillText(kind === 'mark' ? '◆' : signs[kind] || '•', x - 4, y + 3);
      last = x;
    };
    if (kind === 'mark') [...run.marked.keys()].sort((a, b) => a - b).forEach(k => put(run.ticks[k]));
    else run.events.forEach(e => { if (e.k === kind) put(e.t); });
  });
}

// drawPhases draws a row a rank, a shade a phase.
function drawPhases(c, chart, run) {
  const ranks = Math.max(1, run.hosts), h = (chart.height - 4) / ranks;
  c.fillText(run.nodes[0].n, 0, 10);
  c.fillText(run.nodes[ranks - 1].n, 0, chart.height - 3);
  const shades = ['--u2', '--u4', '--u1', '--u3'].map(ink);
  for (const p of run.phases) {
    c.fillStyle = shades[p.i % 4];
    const x = chart.x(p.b);
    c.fillRect(x, 2 + p.n * h, Math.max(.5, chart.x(p.e) - x - .5), Math.max(.6, h - (h > 3 ? .5 : 0)));
  }
}

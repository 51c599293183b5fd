// The fabric, drawn in tiers.

const svgNS = 'http://www.w3.org/2000/svg';
const hostsOneByOne = 64;  // up to so many hosts each has a box
const linesBothWays = 320; // up to so many lines each direction has its own

function svg(name, attributes, parent) {
  const e = document.createElementNS(svgNS, name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (parent) parent.append(e);
  return e;
}

class FabricView {
  // choose is called with {node} or {dir}.
  constructor(run, parent, choose) {
    this.run = run; this.choose = choose;
    this.grouped = run.hosts > hostsOneByOne;
    this.place();
    this.root = svg('svg', {viewBox: `0 0 1000 ${this.height}`, role: 'img', 'aria-label': 'the fabric in tiers', class: 'fabric'}, parent);
    const lines = svg('g', {}, this.root);
    this.discs = svg('g', {}, this.root);
    const boxes = svg('g', {}, this.root);
    this.edges = []; this.edgeOf = new Int32Array(run.dirs).fill(-1); this.pool = [];
    this.drawEdges(lines);
    this.drawNodes(boxes);
    this.root.addEventListener('click', e => {
      const id = e.target.dataset;
      if (id.node) choose({node: +id.node});
      else if (id.dir) choose({dir: +id.dir});
      else choose({});
    });
  }

  place() {
    const run = this.run, rows = new Map();
    run.nodes.forEach((n, i) => {
      if (n.t === 0 && this.grouped) return;
      if (!rows.has(n.t)) rows.set(n.t, []);
      rows.get(n.t).push(i);
    });
    const tiers = [...rows.keys()].sort((a, b) => b - a);
    this.at = new Array(run.nodes.length);
    let y = 18;
    for (const t of tiers) {
      const row = rows.get(t);
      row.forEach((n, i) => { this.at[n] = [1000 * (i + .5) / row.length, y]; });
      this.half = Math.max(2, Math.min(14, 420 / row.length));
      row.forEach(n => { this.at[n].push(this.half); });
      y += t > 1 ? 120 : 80;
    }
    if (this.grouped) {
      run.nodes.forEach((n, i) => { if (n.t === 0) { const tor = this.at[n.r]; this.at[i] = [tor[0], y, tor[2]]; } });
      y += 60;
    }
    this.height = y - 50;
  }

  drawEdges(parent) {
    const run = this.run, byPlace = new Map(), lines = this.grouped ? run.links.length - run.hosts : run.links.length;
    const both = lines <= linesBothWays;
    for (let d = 0; d < run.dirs; d++) {
      const a = run.from(d), b = run.to(d), [ax, ay] = this.at[a], [bx, by] = this.at[b];
      const key = both ? `${ax},${ay},${bx},${by}` : [`${ax},${ay}`, `${bx},${by}`].sort().join();
      let edge = byPlace.get(key);
      if (!edge) {
        // To the right of where it leads, so that the other direction lies beside it, however the line slopes.
        const shift = both ? 1.6 / (Math.hypot(bx - ax, by - ay) || 1) : 0, sx = (ay - by) * shift, sy = (bx - ax) * shift;
        const ends = [ax + sx, ay + sy, bx + sx, by + sy];
        const el = svg('line', {x1: ends[0], y1: ends[1], x2: ends[2], y2: ends[3], class: 'use'}, parent);
        el.dataset.dir = d;
        edge = {el, dirs: [], level: 0, ends};
        byPlace.set(key, edge);
        this.edges.push(edge);
      }
      edge.dirs.push(d);
      this.edgeOf[d] = this.edges.indexOf(edge);
    }
    this.picked = new Set();
  }

  drawNodes(parent) {
    const run = this.run, seen = new Set();
    this.boxes = [];
    run.nodes.forEach((n, i) => {
      const [x, y, half] = this.at[i], group = n.t === 0 && this.grouped;
      if (group && seen.has(n.r)) { this.boxes[i] = this.boxes[run.nodes.findIndex(m => m.r === n.r)]; return; }
      seen.add(n.r);
      const box = svg('rect', {x: x - half, y: y - 6, width: 2 * half, height: 12, rx: n.t === 0 ? 6 : 2, class: 'node'}, parent);
      box.dataset.node = group ? n.r : i;
      svg('title', {}, box).textContent = group ? `hosts of ${run.nodes[n.r].n}` : n.n;
      this.boxes[i] = box;
      const label = group ? '' : n.n;
      if (half * 2 > 6.5 * String(label).length * .8) {
        svg('text', {x, y: y + 3, 'text-anchor': 'middle'}, parent).textContent = label;
      } else if (i === 0 || run.nodes[i - 1].t !== n.t || run.nodes[i + 1] === undefined || run.nodes[i + 1].t !== n.t) {
        svg('text', {x, y: y - 9, 'text-anchor': 'middle'}, parent).textContent = group ? 'hosts' : n.n;
      }
    });
  }

  // pick marks directions and nodes as chosen.
  pick(dirs, nodes) {
    const edges = new Set(dirs.map(d => this.edgeOf[d]));
    for (const e of this.picked) if (!edges.has(e)) this.edges[e].el.classList.remove('pick');
    for (const e of edges) { this.edges[e].el.classList.add('pick'); this.edges[e].el.parentNode.append(this.edges[e].el); }
    this.picked = edges;
    const boxes = new Set(nodes.map(n => this.boxes[n]));
    for (const b of this.root.querySelectorAll('.node.pick')) if (!boxes.has(b)) b.classList.remove('pick');
    for (const b of boxes) if (b) b.classList.add('pick');
  }

  // show draws a tick.
  show(k, t) {
    const run = this.run, base = k * run.dirs, most = run.queueMost || 1;
    let used = 0;
    const marked = run.marked.get(k);
    for (const edge of this.edges) {
      let use = 0, queue = 0, at = 0, hit = 0, cut = false, state = '';
      for (const d of edge.dirs) {
        const i = base + d;
        if (run.use[i] > use) use = run.use[i];
        if (run.queue[i] > queue) { queue = run.queue[i]; at = d; }
        if (marked && marked.has(d)) { hit += marked.get(d); if (!queue) at = d; }
        if (run.down.size && run.isDown(d, t)) cut = true;
        state = run.dirState(d, t) || state;
      }
      if (state === 'down') cut = true;
      const level = use === 0 ? 0 : Math.min(5, 1 + Math.floor(use * 5 / (wholeUse + 1)));
      const look = `use l${level}${cut ? ' cut' : ''}${state && state !== 'down' ? ' ' + state : ''}`;
      if (look !== edge.look) {
        edge.look = look;
        edge.el.setAttribute('class', look);
        if (this.picked.has(this.edgeOf[edge.dirs[0]])) edge.el.classList.add('pick');
        this.cross(edge, cut);
      }
      if (queue > most / 100 || hit) this.disc(used++, edge, at, Math.sqrt(queue / most), hit);
    }
    for (let i = used; i < this.used; i++) this.pool[i].setAttribute('d', '');
    this.used = used;
  }

  cross(edge, cut) {
    if (cut && !edge.cross) {
      const [x1, y1, x2, y2] = edge.ends, x = (x1 + x2) / 2, y = (y1 + y2) / 2;
      edge.cross = svg('path', {d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10`, class: 'cross'}, this.root);
    } else if (!cut && edge.cross) { edge.cross.remove(); edge.cross = null; }
  }

  // disc draws a queue by the port that it waits at, a diamond if packets are marked there.
  disc(i, edge, d, size, hit) {
    if (!this.pool[i]) this.pool[i] = svg('path', {class: 'queue'}, this.discs);
    const el = this.pool[i], r = 1.5 + 9 * size;
    const [ax, ay] = this.at[this.run.from(d)], [bx, by] = this.at[this.run.to(d)];
    const far = Math.hypot(bx - ax, by - ay) || 1, part = Math.min(.45, (14 + r) / far);
    const x = (ax + (bx - ax) * part).toFixed(1), y = (ay + (by - ay) * part).toFixed(1);
    const R = r.toFixed(1), D = (2 * r).toFixed(1), S = (1.3 * r).toFixed(1);
    el.setAttribute('d', hit ? `M${x} ${y}m-${S} 0l${S} -${S}l${S} ${S}l-${S} ${S}z` : `M${x} ${y}m-${R} 0a${R} ${R} 0 1 0 ${D} 0a${R} ${R} 0 1 0 -${D} 0`);
    el.dataset.dir = d;
    if (!!hit !== !!el.hit) { el.hit = hit; el.setAttribute('class', hit ? 'queue marked' : 'queue'); }
  }
}

// drawLegend says below the fabric what its lines and signs are.
function drawLegend(parent, run) {
  const root = svg('svg', {viewBox: '0 0 1000 16', role: 'img', 'aria-label': 'legend'}, parent);
  let x = 4;
  const item = (name, draw) => {
    draw();
    svg('text', {x: x + 30, y: 11}, root).textContent = name;
    x += 38 + 5 * name.length;
  };
  const line = look => () => svg('line', {x1: x, y1: 8, x2: x + 26, y2: 8, class: `use ${look}`}, root);
  if (run.counted) ['idle', 'to 20 %', '40', '60', '80', '100 % used'].forEach((name, level) => item(name, line('l' + level)));
  item('cut', line('cut'));
  item('drained, suspected or impaired', line('l3 impaired'));
  if (run.queued) item('queue', () => svg('circle', {cx: x + 13, cy: 8, r: 5, class: 'queue'}, root));
  if (run.marks.length) item('queue that marks', () => svg('path', {d: `M${x + 6} 8l7 -7l7 7l-7 7z`, class: 'queue marked'}, root));
}

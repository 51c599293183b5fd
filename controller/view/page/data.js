'use strict';
// What a run is: the page's data with what drawing it needs beside it.

function bytesOf(text) {
  const raw = atob(text || ''), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

const wholeUse = 250; // of a link's capacity

class Run {
  constructor(data, keep) {
    Object.assign(this, data);
    for (const list of ['ticks', 'events', 'flows', 'phases', 'marks', 'balance', 'facts']) this[list] = this[list] || [];
    this.dirs = 2 * this.links.length;
    this.keep = keep || 0; // of a live fabric: ticks
    const queue = bytesOf(data.queue);
    this.use = bytesOf(data.use);
    this.counted = this.use.length > 0 || this.keep > 0;
    this.queue = new Uint16Array(queue.length / 2);
    for (let i = 0; i < this.queue.length; i++) this.queue[i] = queue[2 * i] | queue[2 * i + 1] << 8;
    this.queued = this.queue.some(q => q > 0); // somebody measured queues
    if (this.ticks.length < 2 && !this.keep) this.fillTicks();
    this.marked = new Map(); // by tick: the directions in which packets were marked, with their number
    for (let i = 0; i < this.marks.length; i += 3) {
      const k = this.marks[i];
      if (!this.marked.has(k)) this.marked.set(k, new Map());
      this.marked.get(k).set(this.marks[i + 1], this.marks[i + 2]);
    }
    this.state = []; // by link, of a live fabric
    this.probed = []; // paths, of a live fabric
    this.hosts = this.nodes.filter(n => n.t === 0).length;
    this.down = new Map(); // by direction: from when to when it is cut
    this.impaired = new Map(); // by direction: from when to when it loses packets, or is slow
    this.spans = new Map(); // by link: from when to when it is drained or suspected
    for (const e of this.events) this.cutBy(e);
    this.byName = new Map(this.nodes.map((n, i) => [n.n, i]));
    this.linkBetween = new Map();
    this.links.forEach(([a, b], l) => { this.linkBetween.set(a * 65536 + b, 2 * l); this.linkBetween.set(b * 65536 + a, 2 * l + 1); });
    this.sumUp();
  }

  // sumUp finds the longest queue and the busiest link of each tick.
  sumUp() {
    const n = this.ticks.length;
    this.maxUse = []; this.maxQueue = []; this.queueMost = 0; this.queueAt = [0, -1];
    for (let k = 0; k < n; k++) this.sumUpTick(k);
  }

  sumUpTick(k) {
    let u = 0, q = 0;
    for (let d = 0, i = k * this.dirs; d < this.dirs; d++, i++) {
      if (this.use[i] > u) u = this.use[i];
      if (this.queue[i] > q) { q = this.queue[i]; if (q > this.queueMost) { this.queueMost = q; this.queueAt = [k, d]; } }
    }
    this.maxUse[k] = u; this.maxQueue[k] = q;
  }

  // fillTicks gives a run of which there are no counters, or those of the whole run, times to step to.
  fillTicks() {
    const n = 400, use = new Uint8Array(n * this.dirs), queue = new Uint16Array(n * this.dirs);
    this.ticks = [];
    for (let k = 0; k < n; k++) {
      this.ticks.push(this.end * (k + 1) / n);
      use.set(this.use.subarray(0, this.dirs), k * this.dirs);
      queue.set(this.queue.subarray(0, this.dirs), k * this.dirs);
    }
    this.use = use; this.queue = queue;
    this.balance = this.balance.map(b => ({...b, imbalance: new Array(n).fill(b.imbalance[0] || 0)}));
    this.queue_unit = this.queue_unit || 1;
  }

  // cutBy takes what an event says of the state of a link from then on.
  cutBy(e) {
    if (e.d < 0) return;
    const says = (e.x || '').split(',')[0], both = [e.d & ~1, e.d | 1];
    const set = (map, key, is, state) => {
      if (!map.has(key)) map.set(key, []);
      const spans = map.get(key), open = spans.length && spans[spans.length - 1][1] === Infinity;
      if (is && !open) spans.push([e.t, Infinity, state]);
      else if (!is && open) spans[spans.length - 1][1] = e.t;
    };
    if (e.k === 'impair' || e.k === 'restore') set(this.impaired, e.d, e.k === 'impair', 'impaired');
    if (e.k === 'cut' || e.k === 'restore') set(this.down, e.d, e.k === 'cut');
    else if (e.k === 'link') for (const d of both) set(this.down, d, says === 'down');
    else if (e.k === 'drain' || e.k === 'undrain') set(this.spans, e.d >> 1, e.k === 'drain' && says !== 'up', 'drained');
    else if (e.k === 'suspect') set(this.spans, e.d >> 1, says !== 'cleared', 'suspected');
  }

  // stateAt returns what a link is at a time: of a live fabric as the controller says, now; else as events say.
  stateAt(l, t) {
    if (this.keep && t >= this.end) return this.state[l] || '';
    for (const [from, to, state] of this.spans.get(l) || []) if (t >= from && t < to) return state;
    return '';
  }

  isDown(d, t) { return (this.down.get(d) || []).some(([from, to]) => t >= from && t < to); }
  // dirState returns what a direction is at a time besides cut.
  dirState(d, t) {
    return this.stateAt(d >> 1, t) || (this.impaired.size && (this.impaired.get(d) || []).some(([from, to]) => t >= from && t < to) ? 'impaired' : '');
  }
  from(d) { const l = this.links[d >> 1]; return d & 1 ? l[1] : l[0]; }
  to(d) { const l = this.links[d >> 1]; return d & 1 ? l[0] : l[1]; }
  dirName(d) { return this.nodes[this.from(d)].n + '>' + this.nodes[this.to(d)].n; }
  useAt(k, d) { return this.use[k * this.dirs + d] / wholeUse; }
  queueAtTick(k, d) { return this.queue[k * this.dirs + d] * this.queue_unit; }

  // tickAt returns the tick that a time lies in.
  tickAt(t) {
    let lo = 0, hi = this.ticks.length - 1;
    while (lo < hi) { const mid = lo + hi >> 1; if (this.ticks[mid] < t) lo = mid + 1; else hi = mid; }
    return lo;
  }

  // pathDirs returns the directions that a flow's path takes.
  pathDirs(flow) {
    const out = [], p = flow && flow.p || [];
    for (let i = 0; i + 1 < p.length; i++) {
      const d = this.linkBetween.get(p[i] * 65536 + p[i + 1]);
      if (d !== undefined) out.push(d);
    }
    return out;
  }

  flowName(f) {
    return `${f.k}${f.q ? ' ' + f.q : ''} ${this.nodes[f.s].n} to ${this.nodes[f.d].n}, ${f.x || sizeText(f.z)}, ${timeText(f.b)} to ${timeText(f.e)}`;
  }

  eventName(e) {
    const where = e.d >= 0 ? this.dirName(e.d) : e.n >= 0 ? this.nodes[e.n].n : '';
    return `${timeText(e.t)} ${e.k} ${where}${e.c > 1 ? ' x' + e.c : ''} ${e.q ? 'queue pair ' + e.q + ' ' : ''}${e.x || ''}`;
  }

  // add takes a tick of a live fabric, and forgets the oldest.
  add(tick) {
    const over = this.ticks.length >= this.keep ? Math.ceil(this.keep / 4) : 0, at = (this.ticks.length - over) * this.dirs;
    // Room for all that is kept is taken once.
    const put = (old, type, fresh) => {
      const all = old.length === this.keep * this.dirs ? old : new type(this.keep * this.dirs);
      if (all !== old) all.set(old);
      if (over) all.copyWithin(0, over * this.dirs);
      all.fill(0, at, at + this.dirs);
      all.set(fresh.subarray(0, this.dirs), at);
      return all;
    };
    const raw = bytesOf(tick.queue), queue = new Uint16Array(this.dirs);
    for (let i = 0; i < raw.length / 2; i++) queue[i] = raw[2 * i] | raw[2 * i + 1] << 8;
    this.use = put(this.use, Uint8Array, bytesOf(tick.use));
    this.queue = put(this.queue, Uint16Array, queue);
    if (over) this.ticks = this.ticks.slice(over);
    this.ticks.push(tick.t);
    for (const e of tick.events || []) { this.events.push(e); this.cutBy(e); }
    if (this.events.length > 2000) this.events = this.events.slice(-1500);
    if (tick.state) this.state = tick.state;
    this.end = tick.t;
    if (over) this.sumUp(); else this.sumUpTick(this.ticks.length - 1);
  }
}

function timeText(us) {
  if (us >= 1e7) return (us / 1e6).toFixed(1) + ' s';
  if (us >= 1e4) return (us / 1e3).toFixed(2) + ' ms';
  return us.toFixed(us < 100 ? 2 : 1) + ' us';
}

// tickText is a time on an axis whose ticks are gap apart, in microseconds both, with no more digits than tell them apart.
function tickText(us, gap) {
  const [unit, name] = gap >= 1e6 ? [1e6, 's'] : gap >= 1e3 ? [1e3, 'ms'] : [1, 'us'];
  return us ? (us / unit).toFixed(Math.max(0, -Math.floor(Math.log10(gap / unit)))) + ' ' + name : '0';
}

function sizeText(bytes) {
  for (const [unit, name] of [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']]) {
    if (bytes >= unit) return +(bytes / unit).toPrecision(3) + ' ' + name;
  }
  return Math.round(bytes) + ' B';
}

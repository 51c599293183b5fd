// The page: panels of runs in step, what is chosen, keys.

const page = JSON.parse(document.getElementById('data').textContent);
const el = id => document.getElementById(id);
const liveTicks = 1200;
const listMost = 60;

function make(parent, name, text, attributes) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  for (const k in attributes || {}) e.setAttribute(k, attributes[k]);
  parent.append(e);
  return e;
}

class Panel {
  constructor(run, parent) {
    this.run = run; this.choice = {};
    const box = this.box = make(parent, 'section', undefined, {class: 'panel'});
    make(box, 'h2', run.title);
    this.facts = make(box, 'p', factsText(run.facts), {class: 'facts'});
    if (run.trace) offerPerfetto(box, run);
    this.fabric = new FabricView(run, box, c => this.choose(c));
    drawLegend(box, run);
    this.chosen = make(box, 'div', undefined, {class: 'chosen', 'aria-live': 'polite'});
    this.switch = make(box, 'div', undefined, {class: 'switch'});
    const jump = t => go(t);
    this.charts = [];
    if (run.counted) this.charts.push(new Chart(box, 'Use of links', 90, (c, ch) => this.drawUse(c, ch), jump));
    if (run.queued) this.charts.push(new Chart(box, 'Longest queue', 90, (c, ch) => this.drawQueue(c, ch), jump));
    if (run.balance.length) this.charts.push(new Chart(box, 'Imbalance: the busiest link over the mean of its tier, less 1', 80, (c, ch) => this.drawBalance(c, ch), jump));
    const rows = () => 12 * eventRows(run).length + 8;
    if (run.events.length || run.marks.length || page.live) {
      this.strip = new Chart(box, 'Events', rows(), (c, ch) => { drawEvents(c, ch, run); }, jump);
      this.charts.push(this.strip);
    }
    if (run.phases.length) this.charts.push(new Chart(box, 'Phases by rank', Math.min(256, Math.max(64, run.hosts * 4)), (c, ch) => drawPhases(c, ch, run), jump));
    for (const b of run.balance) if (b.text.length) { make(box, 'h3', b.name); for (const line of b.text) make(box, 'div', line); }
    this.flowsName = page.live ? 'Pairs of hosts that send most, as agents reported in the last seconds' : 'Flows';
    this.flowsTitle = make(box, 'h3', this.flowsName);
    this.flows = make(box, 'div', undefined, {class: 'list flows'});
    if (page.live) {
      make(box, 'h3', 'Paths that were probed: those over links that agents blame, and no others');
      this.probed = make(box, 'div', undefined, {class: 'list probed'});
      this.listProbed();
    }
    this.eventsTitle = make(box, 'h3', 'Events about this time');
    this.events = make(box, 'div', undefined, {class: 'list events'});
    if (run.left) make(box, 'p', `${run.left} more are not shown: those that took longest are.`, {class: 'none'});
    this.choose({});
  }

  dirs() {
    const c = this.choice;
    if (c.flow) return this.run.pathDirs(c.flow);
    if (c.dir !== undefined) return [c.dir & ~1, c.dir | 1];
    return [];
  }

  choose(c) {
    this.choice = c;
    const nodes = c.node !== undefined ? [c.node] : c.flow ? [c.flow.s, c.flow.d] : [];
    this.fabric.pick(this.dirs(), nodes);
    if (c.flow) for (const b of this.box.querySelectorAll('.flows button, .probed button')) b.setAttribute('aria-pressed', b.flow === c.flow);
    else this.listFlows(el('find').value);
    this.listed = undefined;
    this.listEvents(now);
    this.askSwitch();
    this.paint();
    this.tell();
  }

  // askSwitch has the server tell what the chosen switch has at this time.
  async askSwitch() {
    const node = this.choice.node, run = this.run;
    if (!page.tables || node === undefined || run.nodes[node].t === 0) { this.switch.textContent = ''; return; }
    if (this.asking) { this.askAgain = true; return; }
    this.asking = true;
    const name = run.nodes[node].n;
    let has;
    try {
      const answer = await fetch(`switch?run=${runs.indexOf(run)}&name=${encodeURIComponent(name)}&t=${now}`);
      has = answer.ok ? await answer.json() : undefined;
    } catch { has = undefined; } // the server has gone; its events tell
    this.asking = false;
    if (this.choice.node === node && has) this.tellSwitch(name, has);
    if (this.askAgain) { this.askAgain = false; this.askSwitch(); }
  }

  // tellSwitch writes what a switch has, unless it stands there.
  tellSwitch(name, has) {
    const text = JSON.stringify([name, has]);
    if (this.shown === text && this.switch.firstChild) return;
    this.shown = text;
    const box = this.switch, open = new Set([...box.querySelectorAll('details[open]')].map(d => d.dataset.table));
    box.textContent = '';
    make(box, 'p', factsText(has.facts || []), {class: 'facts'});
    if (has.ports) tableOf(box, ['port', 'to', 'state', 'sends'], has.ports.map(p => [p.name, p.to, p.state || 'up', p.sends || '']));
    for (const t of has.tables || []) {
      const d = make(box, 'details');
      d.dataset.table = t.name;
      d.open = open.has(t.name);
      make(d, 'summary', `${t.name}: ${t.rows.length + (t.left || 0)}`);
      tableOf(d, ['matches', 'does'], t.rows);
      if (t.left) make(d, 'p', `${t.left} more`, {class: 'none'});
    }
  }

  // tell writes what is chosen, as it is now.
  tell() {
    const c = this.choice, run = this.run, box = this.chosen, k = this.k || 0;
    box.textContent = '';
    if (c.flow) {
      make(box, 'h3', run.flowName(c.flow));
      make(box, 'div', c.flow.p ? c.flow.p.map(n => run.nodes[n].n).join(' ') : 'every packet has a path of its own, or switches choose by hash');
    }
    let dirs = this.dirs();
    if (c.node !== undefined) {
      make(box, 'h3', run.nodes[c.node].n);
      for (let d = 0; d < run.dirs; d++) if (run.from(d) === c.node) dirs.push(d);
    }
    if (!dirs.length || !run.ticks.length) return;
    const table = make(box, 'table'), head = make(table, 'tr');
    const columns = [['port', d => run.dirName(d)]], marked = run.marked.get(k);
    if (run.counted) columns.push(['use', d => Math.round(100 * run.useAt(k, d)) + ' %']);
    if (run.queued) columns.push(['queue', d => sizeText(run.queueAtTick(k, d))]);
    if (run.marks.length) columns.push(['marked', d => marked && marked.get(d) || '']);
    columns.push(['', d => run.isDown(d, now) ? 'cut' : run.dirState(d, now)]);
    for (const [h] of columns) make(head, 'th', h);
    for (const d of dirs.slice(0, 64)) {
      const row = make(table, 'tr');
      for (const [, value] of columns) make(row, 'td', value(d));
    }
  }

  drawUse(c, chart) {
    const run = this.run, dirs = this.dirs();
    const series = dirs.length ? dirs.slice(0, 6).map(d => ({name: run.dirName(d), value: k => run.useAt(k, d)}))
      : [{name: 'busiest link', value: k => run.maxUse[k] / wholeUse}];
    curves(c, chart, run, series, 1, v => 100 * v + ' %');
  }

  drawQueue(c, chart) {
    const run = this.run, dirs = this.dirs();
    const series = dirs.length ? dirs.slice(0, 6).map(d => ({name: run.dirName(d), value: k => run.queueAtTick(k, d)}))
      : [{name: 'of all ports', value: k => run.maxQueue[k] * run.queue_unit}];
    curves(c, chart, run, series, run.queueMost * run.queue_unit, sizeText);
  }

  drawBalance(c, chart) {
    const most = Math.max(.01, ...this.run.balance.map(b => b.imbalance.reduce((a, v) => Math.max(a, v), 0)));
    curves(c, chart, this.run, this.run.balance.map(b => ({name: b.name, value: k => b.imbalance[k] || 0})), most, v => v.toFixed(2));
  }

  listFlows(words) {
    const run = this.run, want = words.toLowerCase().split(/\s+/).filter(Boolean);
    const port = this.choice.dir;
    const found = run.flows.filter(f => (port === undefined || this.uses(f, port)) && want.every(w => run.flowName(f).toLowerCase().includes(w)));
    found.sort(el('order').value === 'bytes' ? (a, b) => b.z - a.z || (b.e - b.b) - (a.e - a.b) : (a, b) => (b.e - b.b) - (a.e - a.b));
    this.flowsTitle.textContent = port === undefined ? this.flowsName : `Flows by ${run.dirName(port)} at this time`;
    this.flows.textContent = '';
    // A live fabric sends them again each second. The chosen one stays chosen.
    const same = (a, b) => a === b || page.live && a && a.k === b.k && a.s === b.s && a.d === b.d, chosen = this.choice.flow;
    for (const f of found.slice(0, listMost)) {
      const b = make(this.flows, 'button', run.flowName(f), {'aria-pressed': same(chosen, f)});
      b.flow = f;
      b.addEventListener('click', () => { this.choose(same(this.choice.flow, f) ? {} : {flow: f}); });
    }
    if (!found.length) make(this.flows, 'div', 'none', {class: 'none'});
    else if (found.length > listMost) make(this.flows, 'div', `${found.length - listMost} more`, {class: 'none'});
  }

  // listProbed lists what probes found about paths. The chosen one stays chosen.
  listProbed() {
    const same = (a, b) => a && a.k === b.k && a.p.join() === b.p.join(), chosen = this.choice.flow;
    this.probed.textContent = '';
    for (const f of this.run.probed) {
      const b = make(this.probed, 'button', this.run.flowName(f), {'aria-pressed': same(chosen, f)});
      b.flow = f;
      b.addEventListener('click', () => { this.choose(same(this.choice.flow, f) ? {} : {flow: f}); });
    }
    if (!this.run.probed.length) make(this.probed, 'div', 'none in the last ten minutes', {class: 'none'});
  }

  // find lists what has these words, and chooses a node of that name.
  find(words) {
    const node = this.run.byName.get(words.trim());
    if (node !== undefined) this.choose({node}); else this.listFlows(words);
  }

  // uses reports whether a flow may have packets at a port now. One without a path uses those of its ends.
  uses(f, dir) {
    const run = this.run;
    if (now < f.b || now > f.e) return false;
    return f.p ? run.pathDirs(f).includes(dir) : f.k !== 'message' && (run.from(dir) === f.s || run.to(dir) === f.d);
  }

  // concerns reports whether an event is of what is chosen.
  concerns(e) {
    const c = this.choice, run = this.run;
    if (c.dir !== undefined) return e.d >= 0 && e.d >> 1 === c.dir >> 1;
    if (c.node !== undefined) return e.n === c.node || e.d >= 0 && (run.from(e.d) === c.node || run.to(e.d) === c.node);
    return true;
  }

  listEvents(t) {
    const of = this.choice.dir !== undefined ? run => run.dirName(this.choice.dir) : this.choice.node !== undefined ? run => run.nodes[this.choice.node].n : null;
    this.eventsTitle.textContent = of ? `Events of ${of(this.run)} about this time` : 'Events about this time';
    const events = of ? this.run.events.filter(e => this.concerns(e)) : this.run.events, near = nextEvent(events, t), from = Math.max(0, near - 8);
    if (from === this.listed && events.length === this.had) return;
    this.listed = from; this.had = events.length;
    this.events.textContent = '';
    for (const e of events.slice(from, from + 30)) {
      make(this.events, 'button', this.run.eventName(e)).addEventListener('click', () => {
        go(e.t);
        if (e.d >= 0) this.choose({dir: e.d}); else if (e.n >= 0) this.choose({node: e.n});
      });
    }
    if (!events.length) make(this.events, 'div', 'none', {class: 'none'});
  }

  paint() {
    if (this.strip) this.strip.height = 12 * eventRows(this.run).length + 8;
    const from = page.live && this.run.ticks.length ? this.run.ticks[0] : 0;
    for (const c of this.charts) { c.paint(from, until()); c.now(now); }
  }

  show(t) {
    if (!this.run.ticks.length) return;
    this.k = this.run.tickAt(t);
    this.fabric.show(this.k, t);
    for (const c of this.charts) c.now(t);
    clearTimeout(this.later);
    this.later = setTimeout(() => { this.listEvents(t); this.tell(); if (!page.live) this.askSwitch(); if (this.choice.dir !== undefined) this.listFlows(el('find').value); }, playing ? 250 : 30);
  }
}

let perfetto = 'https://ui.perfetto.dev';

// offerPerfetto offers to open a run's trace in Perfetto where a server has the trace, and says how else.
function offerPerfetto(box, run) {
  if (!page.traces) {
    make(box, 'p', `ethereal view ${run.trace} serves this page with a button that opens the trace in Perfetto; or open the file at ${perfetto}`, {class: 'facts'});
    return;
  }
  const b = make(box, 'button', 'Open in Perfetto', {type: 'button', class: 'perfetto', title: `${perfetto}, in a window of its own: the browser hands it the trace, which leaves this machine for nowhere`});
  const said = make(box, 'span', '', {class: 'facts', role: 'status'});
  b.addEventListener('click', () => { openPerfetto(run, text => { said.textContent = ' ' + text; }); });
}

// openPerfetto opens Perfetto in a window and hands it the trace when it says that it listens, as its documentation has it.
async function openPerfetto(run, say) {
  const there = window.open(perfetto); // at once: it is the click that allows it
  if (!there) { say('the browser does not let this page open a window'); return; }
  let buffer;
  try {
    const answer = await fetch(`trace?run=${runs.indexOf(run)}`);
    if (!answer.ok) throw new Error(answer.statusText);
    buffer = await answer.arrayBuffer();
  } catch (e) { say(`the trace cannot be had: ${e.message}`); return; }
  const origin = new URL(perfetto).origin, begun = Date.now();
  const stop = () => { clearInterval(asking); removeEventListener('message', hear); };
  const hear = e => {
    if (e.source !== there || e.origin !== origin || e.data !== 'PONG') return;
    stop();
    there.postMessage({perfetto: {buffer, title: run.title, fileName: run.trace}}, origin, [buffer]);
    say('handed over');
  };
  addEventListener('message', hear);
  const asking = setInterval(() => {
    if (there.closed || Date.now() - begun > 60000) { stop(); say(`no answer from ${perfetto}: open ${run.trace} there`); return; }
    there.postMessage('PING', origin);
  }, 100);
}

function factsText(facts) { return facts.map(f => f.join(' ')).join(' · '); }

// tableOf writes a table.
function tableOf(parent, heads, rows) {
  const table = make(parent, 'table'), head = make(table, 'tr');
  for (const h of heads) make(head, 'th', h);
  for (const r of rows) { const row = make(table, 'tr'); for (const c of r) make(row, 'td', c); }
}

function nextEvent(events, t) {
  let lo = 0, hi = events.length;
  while (lo < hi) { const mid = lo + hi >> 1; if (events[mid].t <= t) lo = mid + 1; else hi = mid; }
  return lo;
}

let runs = (page.runs || []).map(r => new Run(r, page.live ? liveTicks : 0));
let panels = [], now = 0, playing = false, following = page.live;
const until = () => Math.max(...panels.map(p => p.run.end), 1e-6);

function ticks() { return panels.length ? panels[0].run.ticks : []; }

// go shows a time in all panels.
function go(t) {
  const first = page.live && ticks().length ? ticks()[0] : 0;
  now = Math.max(first, Math.min(until(), t));
  el('scrub').value = panels.length ? panels[0].run.tickAt(now) : 0;
  el('now').textContent = timeText(now);
  for (const p of panels) p.show(now);
}

function step(by) {
  const all = ticks();
  if (!all.length) return;
  const k = Math.max(0, Math.min(all.length - 1, panels[0].run.tickAt(now) + by));
  following = page.live && k === all.length - 1;
  go(all[k]);
}

function jumpEvent(way) {
  const times = [...new Set(panels.flatMap(p => p.run.events.map(e => e.t)))].sort((a, b) => a - b);
  const t = way > 0 ? times.find(x => x > now + 1e-6) : times.filter(x => x < now - 1e-6).pop();
  if (t !== undefined) go(t);
}

// firstFailure is when the first thing failed in the runs that are shown: a cut if there is one, else a loss; 0 if nothing did.
function firstFailure() {
  const events = panels.flatMap(p => p.run.events);
  for (const kinds of [['cut'], ['suspect', 'timeout', 'lost', 'drop']]) {
    const times = events.filter(e => kinds.includes(e.k)).map(e => e.t);
    if (times.length) return times.reduce((a, b) => Math.min(a, b));
  }
  return 0;
}

// longestQueue goes to the time and port of the longest queue of all runs.
function longestQueue() {
  const most = panels.map(p => p.run).reduce((a, b) => b.queueMost * b.queue_unit > a.queueMost * a.queue_unit ? b : a);
  if (!most.queueMost) return;
  const [k, dir] = most.queueAt, name = most.dirName(dir);
  go(most.ticks[k]);
  for (const p of panels) {
    const same = [...Array(p.run.dirs).keys()].find(d => p.run.dirName(d) === name);
    if (same !== undefined) p.choose({dir: same});
  }
}

function play(on) {
  playing = on;
  el('play').textContent = on ? '❚❚' : '▶';
  let last;
  const frame = at => {
    if (!playing) return;
    const all = ticks(), wait = Math.max(16, 12000 / all.length);
    if (last === undefined || at - last >= wait) { last = at; if (now >= all[all.length - 1]) playing = false; step(1); }
    if (playing) requestAnimationFrame(frame); else play(false);
  };
  if (on) requestAnimationFrame(frame);
}

function arrange() {
  const chosen = [el('left').value, el('right').value].filter(v => v !== '').map(Number);
  el('panels').textContent = '';
  panels = [];
  for (const i of chosen) panels.push(new Panel(runs[i], el('panels')));
  el('scrub').max = Math.max(0, ticks().length - 1);
  for (const p of panels) p.paint();
  go(now);
}

function begin() {
  el('title').textContent = page.title;
  for (const [id, at] of [['left', 0], ['right', runs.length > 1 ? 1 : -1]]) {
    if (id === 'right') make(el(id), 'option', 'nothing', {value: ''});
    runs.forEach((r, i) => make(el(id), 'option', r.title, {value: i}));
    el(id).value = at < 0 ? '' : at;
    el(id).addEventListener('change', arrange);
    el(id).parentNode.hidden = runs.length < 2;
  }
  el('scrub').addEventListener('input', e => { const t = ticks(); following = page.live && +e.target.value === t.length - 1; go(t[+e.target.value] || 0); });
  el('play').addEventListener('click', () => play(!playing));
  el('find').addEventListener('input', e => panels.forEach(p => p.find(e.target.value)));
  el('order').addEventListener('change', () => panels.forEach(p => p.listFlows(el('find').value)));
  document.addEventListener('keydown', key);
  let resized;
  addEventListener('resize', () => { clearTimeout(resized); resized = setTimeout(() => panels.forEach(p => p.paint()), 100); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => panels.forEach(p => p.paint()));
  arrange();
  if (!page.live) go(firstFailure());
  place();
  addEventListener('hashchange', place);
  if (page.live) listen();
}

function key(e) {
  if (e.target.tagName === 'SELECT' || e.target.type === 'search') {
    if (e.key === 'Escape') e.target.blur();
    return;
  }
  const by = e.shiftKey ? 10 : 1;
  const does = {
    ArrowLeft: () => step(-by), ArrowRight: () => step(by), Home: () => go(0), End: () => go(until()), n: () => jumpEvent(1), p: () => jumpEvent(-1),
    q: longestQueue, ' ': () => play(!playing), '/': () => el('find').focus(), Escape: () => panels.forEach(p => p.choose({})),
  }[e.key];
  if (!does || e.ctrlKey || e.altKey || e.metaKey || e.key === ' ' && e.target.tagName === 'BUTTON') return;
  e.preventDefault();
  does();
}

// place shows what the address asks for behind its #: t=MICROSECONDS, node=NAME, port=SENDER>RECEIVER, flow=WORDS, or longest-queue.
function place() {
  const want = new URLSearchParams(location.hash.slice(1));
  if (want.has('longest-queue')) longestQueue();
  if (want.has('t')) go(+want.get('t') || 0);
  for (const p of panels) {
    const r = p.run, dir = [...Array(r.dirs).keys()].find(d => r.dirName(d) === want.get('port'));
    if (dir !== undefined) p.choose({dir});
    if (r.byName.has(want.get('node'))) p.choose({node: r.byName.get(want.get('node'))});
    const flow = want.has('flow') && r.flows.find(f => r.flowName(f).includes(want.get('flow')));
    if (flow) p.choose({flow});
  }
}

// listen takes the events of the page's server. What it had sent before comes again after a pause.
function listen() {
  const source = new EventSource('events');
  let painted = 0;
  source.addEventListener('begin', e => {
    if (e.data !== page.session) { location.reload(); return; } // another controller, perhaps of another fabric
    for (const r of runs) { Object.assign(r, {ticks: [], events: []}); r.down.clear(); r.impaired.clear(); r.spans.clear(); r.sumUp(); }
  });
  source.onmessage = m => {
    const tick = JSON.parse(m.data), r = runs[0];
    r.add(tick);
    el('scrub').max = r.ticks.length - 1;
    if (Date.now() - painted > 900 || tick.events) { painted = Date.now(); panels.forEach(p => { p.paint(); p.askSwitch(); }); }
    if (tick.probed) { r.probed = tick.probed; for (const p of panels) p.listProbed(); }
    if (tick.largest) { r.flows = tick.largest; for (const p of panels) p.listFlows(el('find').value); }
    if (tick.facts) for (const p of panels) p.facts.textContent = factsText([...r.facts, ...tick.facts]);
    if (following) go(tick.t);
  };
}

begin();

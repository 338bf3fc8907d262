// Follows the owners, and shows them. Everything from the cluster is set as text, never
// as HTML.
import {layout, boxWidth, boxHeight} from './layout.js';

const $ = (id) => document.getElementById(id);
const marks = {
  Ready: '✓', Waiting: '…', Blocked: '·', Degraded: '!', Failed: '✗', Absent: '○', Deleting: '−',
};
const tokenKey = 'token of ' + location.pathname;

const state = {
  view: null, // the last view from the server
  version: '', // of that view
  owner: '', // the chosen owner
  node: '', // the chosen node of the owner
  plan: null, // the layout of the owner's graph, with its shape
  zoom: 1,
  skew: 0, // the server's clock ahead of this one, in milliseconds
};

// ---- asking

let asking = new AbortController();
let wake = () => {};

// again asks at once, because the question has changed.
function again() {
  state.version = '';
  asking.abort();
  wake();
}

const pause = (millis) => new Promise((done) => {
  const timer = setTimeout(done, millis);
  wake = () => { clearTimeout(timer); done(); };
});

async function follow() {
  for (let failures = 0; ;) {
    if (document.hidden) await pause(3600e3);
    asking = new AbortController();
    try {
      failures = await ask(asking.signal) ? 0 : failures + 1;
    } catch (err) {
      if (err.name === 'AbortError') continue;
      failures++;
      line('lost', 'The operator does not answer. Trying again …');
    }
    if (failures) await pause(Math.min(10e3, 500 * 2 ** failures));
  }
}

// ask asks once, and returns whether there was an answer.
async function ask(signal) {
  const token = sessionStorage.getItem(tokenKey);
  const query = new URLSearchParams({owner: state.owner, find: $('find').value.trim(), version: state.version});
  const answer = await fetch('data?' + query, {
    signal, cache: 'no-store', headers: token ? {Authorization: 'Bearer ' + token} : {},
  });
  state.skew = Date.parse(answer.headers.get('Date')) - Date.now() || 0;
  switch (answer.status) {
    case 200: {
      const view = await answer.json();
      state.version = answer.headers.get('ETag')?.replaceAll('"', '') ?? '';
      $('login').hidden = true;
      $('main').hidden = false;
      $('leave').hidden = !token;
      show(view);
      return true;
    }
    case 204:
      return true;
    case 401:
    case 403:
      await login(!token ? '' : answer.status === 401 ? 'The cluster does not know this token.' :
        'The token’s user may not get ' + new URL('data', location).pathname + '.');
      return true;
  }
  line('lost', 'Waiting: ' + (await answer.text()).trim());
  return false;
}

// login waits for a token.
async function login(refused) {
  sessionStorage.removeItem(tokenKey);
  state.view = null;
  state.version = '';
  $('main').hidden = $('leave').hidden = true;
  $('login').hidden = false;
  $('refused').textContent = refused;
  line('', 'A token is needed');
  $('token').value = '';
  $('token').focus();
  await new Promise((done) => {
    $('login').onsubmit = (ev) => {
      ev.preventDefault();
      const token = $('token').value.trim();
      if (!/^[!-~]+$/.test(token)) { // it cannot be in a header
        set($('refused'), 'This is not a token.');
        $('token').value = '';
        return;
      }
      sessionStorage.setItem(tokenKey, token);
      $('token').value = '';
      line('', 'connecting …');
      done();
    };
  });
}

function line(kind, text) {
  $('line').className = kind;
  if ($('line').textContent !== text) $('line').textContent = text;
}

// ---- showing

// element makes an element with a class and a text.
function element(tag, name = '', text = '') {
  const e = document.createElement(tag);
  e.className = name;
  e.textContent = text;
  return e;
}

// keyed makes the children of a parent those of a list. A child that stays is the same
// element as before, so it keeps the focus.
function keyed(parent, list, keyOf, make, update) {
  const old = new Map([...parent.children].map((e) => [e.key, e]));
  let next = parent.firstElementChild;
  for (const value of list) {
    const key = keyOf(value);
    let e = old.get(key);
    old.delete(key);
    if (!e) {
      e = make(value);
      e.key = key;
    }
    if (e === next) next = next.nextElementSibling;
    else {
      const focused = e.contains(document.activeElement) && document.activeElement;
      parent.insertBefore(e, next);
      if (focused) focused.focus({preventScroll: true});
    }
    update(e, value);
  }
  for (const e of old.values()) e.remove();
}

const set = (e, text) => { if (e.textContent !== text) e.textContent = text; };

// age is an element that tells for how long something holds.
function setAge(e, since) {
  e.dataset.since = since ? Date.parse(since) : '';
  tick(e);
}

function tick(e) {
  const s = Math.max(0, Math.round((Date.now() + state.skew - e.dataset.since) / 1000));
  const [unit, name] = s < 120 ? [1, 's'] : s < 7200 ? [60, 'min'] : s < 172800 ? [3600, 'h'] : [86400, 'days'];
  set(e, e.dataset.since ? `${Math.floor(s / unit)} ${name}` : '');
}

setInterval(() => document.querySelectorAll('[data-since]').forEach(tick), 1000);

function setState(e, value) {
  e.dataset.state = value;
  set(e.querySelector('.mark'), marks[value] ?? '?');
}

function show(view) {
  const before = state.view;
  state.view = view;
  line(view.trouble ? 'lost' : 'live', view.trouble ? 'Out of date: ' + view.trouble : 'live');
  set($('heading'), 'Plans of ' + view.kind);
  document.title = (state.owner ? state.owner.replace(/^\//, '') + ' – ' : '') + 'Plans of ' + view.kind;
  showOwners(view);
  if (!state.owner && view.owners.length) {
    choose(view.owners[0].key, true);
    return;
  }
  if (before?.owner?.key === view.owner?.key) tell(before?.owner, view.owner);
  showOwner(view.owner);
}

function showOwners(view) {
  keyed($('owners'), view.owners, (o) => o.key, (o) => {
    const li = element('li'), a = element('a', 'owner');
    a.href = '#' + encodeURIComponent(o.key);
    const mark = element('span', 'mark'), name = element('span', 'name'), ready = element('span', 'ready');
    const summary = element('span', 'summary'), age = element('span', 'age');
    mark.setAttribute('aria-hidden', 'true');
    name.append(element('span', 'space'), element('b'));
    a.append(mark, name, ready, summary, age);
    li.append(a);
    return li;
  }, (li, o) => {
    const a = li.firstChild, [, name, ready, summary, age] = a.children;
    setState(a, o.state);
    const [namespace, own] = o.key.split('/');
    set(name.firstChild, namespace && namespace + '/');
    set(name.lastChild, own);
    set(ready, o.ready);
    set(summary, o.summary || 'not reconciled yet');
    setAge(age, o.since);
    if (o.key === state.owner) a.setAttribute('aria-current', 'true');
    else a.removeAttribute('aria-current');
  });
  const n = view.owners.length;
  set($('count'), view.more ? `${n} owners, and ${view.more} more: find some` : n === 1 ? '1 owner' : `${n} owners`);
}

// tell tells a screen reader which nodes have changed.
function tell(before, is) {
  const was = new Map(before?.nodes.map((n) => [n.name, n.state]));
  const changed = (is?.nodes ?? []).filter((n) => was.has(n.name) && was.get(n.name) !== n.state);
  const more = changed.length > 3 ? `, and ${changed.length - 3} more` : '';
  if (changed.length) set($('news'), changed.slice(0, 3).map((n) => `${n.name}: ${n.state}`).join(', ') + more);
}

function showOwner(o) {
  $('shown').hidden = !o;
  set($('title'), state.owner.replace(/^\//, '') || 'No owners');
  set($('summary'), o ? o.summary : state.owner ? 'There is no such owner.' : `There is no ${state.view.kind}.`);
  if (!o) return;
  showGraph(o);
  showNode();
  showTurns($('turns'), o.turns, 'This process has not reconciled it.');
  showTurns($('failed'), o.failed, 'None.');
  keyed($('legend'), Object.keys(marks).filter((s) => o.nodes.some((n) => n.state === s)), (s) => s, (s) => {
    const li = element('li');
    li.append(element('span', 'mark'), element('span'));
    return li;
  }, (li, s) => {
    setState(li, s);
    set(li.lastChild, `${s} ${o.nodes.filter((n) => n.state === s).length}`);
  });
}

// ---- the graph

function showGraph(o) {
  const shape = JSON.stringify([o.key, o.nodes.map((n) => [n.name, n.needs])]);
  const fresh = state.plan?.owner !== o.key;
  if (state.plan?.shape !== shape) state.plan = {...layout(o.nodes), shape, owner: o.key};
  const {boxes, edges, undrawn} = state.plan;
  set($('undrawn'), undrawn ? `${undrawn} more edges are not drawn` : '');
  if (!boxes.has(state.node)) state.node = boxes.keys().next().value ?? '';
  const focused = $('nodes').contains(document.activeElement);
  const seen = new Set(), first = (n) => !seen.has(n.name) && seen.add(n.name);
  keyed($('nodes'), o.nodes.filter(first), (n) => n.name, (n) => {
    const b = element('button', 'node'), mark = element('span', 'mark');
    b.type = 'button';
    b.dataset.name = n.name;
    mark.setAttribute('aria-hidden', 'true');
    b.append(mark, element('span', 'name'), element('span', 'story'));
    return b;
  }, (b, n) => {
    const box = boxes.get(n.name);
    Object.assign(b.style, {left: box.x + 'px', top: box.y + 'px', width: boxWidth + 'px', height: boxHeight + 'px'});
    setState(b, n.state);
    set(b.children[1], n.name);
    set(b.children[2], n.state + (n.message ? ': ' + n.message : ''));
    b.title = n.name + '\n' + b.children[2].textContent;
    const needs = box.needs.length ? '; needs ' + box.needs.join(', ') : '';
    b.setAttribute('aria-label', `${n.name}, ${b.children[2].textContent}${needs}`);
  });
  const svg = 'http://www.w3.org/2000/svg'; // a name, and no address that is asked
  keyed($('edges'), edges, (e) => e.from + '\n' + e.to, () => document.createElementNS(svg, 'path'),
    (p, e) => p.setAttribute('d', e.path));
  size();
  mark();
  if (fresh) $('graph').scrollTo(0, (boxes.get(state.node)?.y ?? 0) * state.zoom - $('graph').clientHeight / 2);
  if (focused && !$('nodes').contains(document.activeElement)) chooseNode(state.node, true); // its node has left
}

// size sets the size of the sheet.
function size() {
  const {width, height} = state.plan;
  Object.assign($('sheet').style, {width: width + 'px', height: height + 'px', zoom: state.zoom});
  $('edges').setAttribute('width', width);
  $('edges').setAttribute('height', height);
}

// mark marks the chosen node, its edges and its neighbours. Only it is in the order of
// the tab key.
function mark() {
  const box = state.plan.boxes.get(state.node);
  for (const b of $('nodes').children) {
    const chosen = b.key === state.node;
    b.tabIndex = chosen ? 0 : -1;
    b.setAttribute('aria-pressed', chosen);
    b.classList.toggle('near', !!box && (box.needs.includes(b.key) || box.neededBy.includes(b.key)));
  }
  for (const p of $('edges').children) p.classList.toggle('near', p.key.split('\n').includes(state.node));
}

function chooseNode(name, focus) {
  state.node = name;
  mark();
  showNode();
  if (focus) [...$('nodes').children].find((b) => b.key === name)?.focus();
}

// step returns the node to which a key leads.
function step(key) {
  const {boxes} = state.plan, here = boxes.get(state.node);
  const far = (name) => Math.abs(boxes.get(name).y - here.y);
  const near = (names) => names.toSorted((a, b) => far(a) - far(b))[0];
  const all = [...boxes].sort(([, a], [, b]) => a.column - b.column || a.y - b.y).map(([name]) => name);
  const column = all.filter((name) => boxes.get(name).column === here.column);
  switch (key) {
    case 'ArrowRight': return near(here.neededBy);
    case 'ArrowLeft': return near(here.needs);
    case 'ArrowDown': return column[column.indexOf(state.node) + 1];
    case 'ArrowUp': return column[column.indexOf(state.node) - 1];
    case 'Home': return all[0];
    case 'End': return all.at(-1);
  }
}

function showNode() {
  const o = state.view?.owner, n = o?.nodes.find((n) => n.name === state.node);
  const rows = n ? [
    ['Node', n.name],
    ['State', `${marks[n.state] ?? '?'} ${n.state}`, n.since],
    ['Why', n.message],
    [n.outside ? 'Thing outside the cluster' : 'Object', n.object],
    ['Needs', state.plan.boxes.get(n.name).needs.join(', ')],
    ['Needed by', state.plan.boxes.get(n.name).neededBy.join(', ')],
  ].filter(([, text]) => text) : [];
  keyed($('node'), rows, ([term]) => term, ([term]) => {
    const div = element('div'), value = element('span', 'value');
    div.append(element('span', 'term', term), value, element('span', 'age'));
    return div;
  }, (div, [, text, since]) => {
    set(div.children[1], text);
    setAge(div.children[2], since);
  });
}

function showTurns(list, turns, none) {
  const rows = turns.length ? turns : [{at: '', none}];
  keyed(list, rows, (t) => t.at, (t) => {
    const li = element('li', t.error ? 'bad' : '');
    if (t.none) return element('li', 'quiet', t.none);
    const at = element('time', '', new Date(t.at).toLocaleTimeString()), age = element('span', 'age');
    at.dateTime = t.at;
    const how = (t.error ? '✗ failed' : '✓ done') + ` in ${t.millis} ms`;
    li.append(at, age, element('span', 'how', how), element('span', 'why', t.causes.join(', ') || 'unknown cause'));
    if (t.error) li.append(element('span', 'error', t.error));
    setAge(age, t.at);
    return li;
  }, () => {});
}

// ---- doing

function choose(key, replace) {
  if (replace) history.replaceState(null, '', '#' + encodeURIComponent(key));
  state.owner = key;
  state.node = '';
  if (state.view) {
    showOwners(state.view);
    set($('title'), key.replace(/^\//, ''));
  }
  again();
}

function fromAddress() {
  try {
    const key = decodeURIComponent(location.hash.slice(1));
    if (key.includes('/') && key !== state.owner) choose(key);
  } catch { /* the address is not one of this page */ }
}

function zoom(factor) {
  state.zoom = Math.min(2, Math.max(0.05, factor));
  size();
  $('nodes').querySelector('[tabindex="0"]')?.scrollIntoView({block: 'nearest', inline: 'nearest'});
}

addEventListener('hashchange', fromAddress);
document.addEventListener('visibilitychange', () => { if (!document.hidden) wake(); });
$('find').addEventListener('input', again);
$('leave').addEventListener('click', () => {
  sessionStorage.removeItem(tokenKey);
  again();
});
$('skip').addEventListener('click', (ev) => {
  ev.preventDefault();
  ($('nodes').querySelector('[tabindex="0"]') ?? $('title')).focus();
});
$('smaller').addEventListener('click', () => zoom(state.zoom / 1.25));
$('larger').addEventListener('click', () => zoom(state.zoom * 1.25));
$('whole').addEventListener('click', () => {
  const {width, height} = state.plan, room = $('graph');
  const whole = Math.min(1, (room.clientWidth - 32) / width, (room.clientHeight - 32) / height);
  zoom(state.zoom === whole ? 1 : whole);
});
$('nodes').addEventListener('click', (ev) => {
  const b = ev.target.closest('.node');
  if (b) chooseNode(b.key, true);
});
$('nodes').addEventListener('keydown', (ev) => {
  if (ev.ctrlKey || ev.altKey || ev.metaKey || !/^(Arrow.*|Home|End)$/.test(ev.key)) return;
  ev.preventDefault();
  const to = step(ev.key);
  if (to !== undefined) chooseNode(to, true);
});
document.querySelector('nav').addEventListener('keydown', (ev) => {
  const step = {ArrowDown: 1, ArrowUp: -1}[ev.key];
  if (!step || ev.ctrlKey || ev.altKey || ev.metaKey) return;
  const stops = [$('find'), ...$('owners').querySelectorAll('a')];
  const to = stops[stops.indexOf(document.activeElement) + step];
  if (!to) return;
  ev.preventDefault();
  to.focus();
});

fromAddress();
follow();

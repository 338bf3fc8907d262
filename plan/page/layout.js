// Finds places for the nodes of a graph: in columns from left to right, each node to the
// right of all that it needs.

export const boxWidth = 200, boxHeight = 48;
const columnGap = 72, rowHeight = boxHeight + 16, bendHeight = 10;
// A status may have been written by anybody. Of a graph with more edges than this the rest
// is not drawn, and with more bends no edge goes around nodes.
const maxEdges = 4000, maxBends = 10000;

// layout takes nodes with a name and the names that they need. It returns the size of the
// drawing, the nodes' boxes by name, the edges as paths of SVG, and the number of edges that
// are not drawn. Needs that are unknown or that close a cycle are left out.
export function layout(nodes) {
  const items = new Map();
  for (const n of nodes) {
    if (!items.has(n.name)) items.set(n.name, item(n.name, n.needs));
  }
  link(items);
  const columns = [];
  for (const it of items.values()) (columns[it.column] ??= []).push(it);
  const edges = [], needs = new Map(), neededBy = new Map();
  let bends = 0;
  for (const to of items.values()) {
    for (const from of to.before) {
      edges.push({from, to, bends: []});
      bends += to.column - from.column - 1;
      if (!neededBy.has(from)) neededBy.set(from, []);
      neededBy.get(from).push(to.name);
    }
    needs.set(to, to.before.map((it) => it.name));
    to.before = [];
  }
  for (const e of edges) e.bends = bend(e.from, e.to, bends > maxBends ? null : columns);
  order(columns);
  const height = place(columns);
  const boxes = new Map();
  for (const it of items.values()) {
    boxes.set(it.name, {
      x: left(it.column), y: it.y - boxHeight / 2, column: it.column,
      needs: needs.get(it), neededBy: neededBy.get(it) ?? [],
    });
  }
  return {
    width: columns.length ? left(columns.length - 1) + boxWidth : 0, height, boxes,
    edges: edges.slice(0, maxEdges).map((e) => ({from: e.from.name, to: e.to.name, path: path(e)})),
    undrawn: Math.max(0, edges.length - maxEdges),
  };
}

// item is a node, or a bend of an edge that crosses a column. before and after are its
// neighbours in the columns beside it.
function item(name, needs) {
  return {name, needs, height: rowHeight, column: 0, before: [], after: [], y: 0, at: 0};
}

const left = (column) => column * (boxWidth + columnGap);

// link sets the neighbours and the columns, and leaves out cycles.
function link(items) {
  const open = new Set(), done = new Set();
  const take = (it, need) => {
    it.before.push(need);
    it.column = Math.max(it.column, need.column + 1);
  };
  for (const root of items.values()) {
    // The path of nodes that are being visited, each with its needs that are left. There is
    // no recursion, because a chain of nodes may be longer than a stack is deep.
    const path = [];
    const visit = (it) => {
      open.add(it);
      path.push({it, left: [...new Set(it.needs)].map((name) => items.get(name)).reverse()});
    };
    if (!done.has(root)) visit(root);
    while (path.length) {
      const {it, left} = path.at(-1);
      if (!left.length) {
        open.delete(it);
        done.add(it);
        path.pop();
        if (path.length) take(path.at(-1).it, it);
        continue;
      }
      const need = left.pop();
      if (!need || open.has(need)) continue;
      if (done.has(need)) take(it, need);
      else visit(need);
    }
  }
}

// bend puts bends where an edge crosses columns, and makes the items of the edge
// neighbours. Without columns there are no bends.
function bend(from, to, columns) {
  const bends = [];
  let last = from;
  for (let c = columns ? from.column + 1 : to.column; c <= to.column; c++) {
    const next = c === to.column ? to : {...item(), height: bendHeight, column: c, before: [], after: []};
    last.after.push(next);
    next.before.push(last);
    if (next !== to) {
      bends.push(next);
      columns[c].push(next);
    }
    last = next;
  }
  return bends;
}

const mean = (list, of, otherwise) => list.length ? list.reduce((sum, it) => sum + of(it), 0) / list.length : otherwise;

// order sorts each column by the places of its neighbours, so that fewer edges cross.
function order(columns) {
  const number = (column) => column.forEach((it, i) => { it.at = i; });
  columns.forEach(number);
  for (let sweep = 0; sweep < 8; sweep++) {
    const forward = sweep % 2 === 0;
    for (const column of forward ? columns : columns.toReversed()) {
      for (const it of column) it.wish = mean(forward ? it.before : it.after, (o) => o.at, it.at);
      column.sort((a, b) => a.wish - b.wish);
      number(column);
    }
  }
}

// place sets the heights of all items, near the heights of their neighbours, and returns
// the height of the drawing.
function place(columns) {
  for (const column of columns) spread(column, () => 0);
  for (let sweep = 0; sweep < 12; sweep++) {
    const forward = sweep % 2 === 0;
    for (const column of forward ? columns : columns.toReversed()) {
      spread(column, (it) => mean(forward ? it.before : it.after, (o) => o.y, it.y));
    }
  }
  const all = columns.flat();
  const top = all.reduce((top, it) => Math.min(top, it.y - it.height / 2), Infinity);
  for (const it of all) it.y -= top;
  return all.reduce((bottom, it) => Math.max(bottom, it.y + it.height / 2), 0);
}

// spread gives the items of a column the heights next to the wished ones at which they do
// not overlap. Items that would overlap become a block, whose middle is where its items
// wish to be on average.
function spread(column, wish) {
  const blocks = [], middle = (block) => block.sum / block.items.length;
  let offset = 0;
  for (const it of column) {
    offset += it.height / 2;
    let block = {items: [{it, offset}], sum: wish(it) - offset};
    offset += it.height / 2;
    while (blocks.length && middle(blocks.at(-1)) > middle(block)) {
      const last = blocks.pop();
      for (const item of block.items) last.items.push(item);
      last.sum += block.sum;
      block = last;
    }
    blocks.push(block);
  }
  for (const b of blocks) for (const {it, offset} of b.items) it.y = middle(b) + offset;
}

// path returns the curve of an edge.
function path({from, to, bends}) {
  let x = left(from.column) + boxWidth, y = from.y, d = `M${x} ${y.toFixed(1)}`;
  for (const it of [...bends, to]) {
    const end = left(it.column), middle = (x + end) / 2;
    d += `C${middle} ${y.toFixed(1)} ${middle} ${it.y.toFixed(1)} ${end} ${it.y.toFixed(1)}`;
    if (it !== to) d += `h${boxWidth}`;
    x = end + boxWidth;
    y = it.y;
  }
  return d;
}

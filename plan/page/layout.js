// Finds places for the nodes of a graph: in columns from left to right, each node to the
// right of all that it needs.

export const boxWidth = 200, boxHeight = 48;
const columnGap = 72, rowHeight = boxHeight + 16, bendHeight = 10;

// layout takes nodes with a name and the names that they need. It returns the size of the
// drawing, the nodes' boxes by name, and the edges as paths of SVG. Needs that are unknown
// or that close a cycle are left out: a status may have been written by anybody.
export function layout(nodes) {
  const items = new Map();
  for (const n of nodes) {
    if (!items.has(n.name)) items.set(n.name, item(n.name, n.needs));
  }
  link(items);
  const columns = [];
  for (const it of items.values()) (columns[it.column] ??= []).push(it);
  const edges = [];
  for (const to of items.values()) {
    for (const from of to.before.slice()) edges.push({from, to, bends: bend(from, to, columns)});
  }
  order(columns);
  const height = place(columns);
  const boxes = new Map();
  for (const it of items.values()) {
    boxes.set(it.name, {
      x: left(it.column), y: it.y - boxHeight / 2, column: it.column,
      needs: edges.filter((e) => e.to === it).map((e) => e.from.name),
      neededBy: edges.filter((e) => e.from === it).map((e) => e.to.name),
    });
  }
  return {
    width: columns.length ? left(columns.length - 1) + boxWidth : 0, height, boxes,
    edges: edges.map((e) => ({from: e.from.name, to: e.to.name, path: path(e)})),
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
  const visit = (it) => {
    open.add(it);
    for (const name of new Set(it.needs)) {
      const need = items.get(name);
      if (!need || open.has(need)) continue;
      if (!done.has(need)) visit(need);
      it.before.push(need);
      it.column = Math.max(it.column, need.column + 1);
    }
    open.delete(it);
    done.add(it);
  };
  for (const it of items.values()) if (!done.has(it)) visit(it);
}

// bend puts bends where an edge crosses columns, and makes the items of the edge
// neighbours.
function bend(from, to, columns) {
  const bends = [];
  to.before.splice(to.before.indexOf(from), 1);
  let last = from;
  for (let c = from.column + 1; c <= to.column; c++) {
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
  const top = Math.min(...all.map((it) => it.y - it.height / 2));
  for (const it of all) it.y -= top;
  return all.length ? Math.max(...all.map((it) => it.y + it.height / 2)) : 0;
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
      block = {items: last.items.concat(block.items), sum: last.sum + block.sum};
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

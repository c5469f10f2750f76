// A garbage-collected runtime at work: a long-lived store of orders, short-lived requests that allocate, a growing cache that
// is dropped now and then. V8 moves survivors to its old generation and compacts it meanwhile.
'use strict';

let seed = 7;
function draw(limit) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 4294967296) * limit);
}

const store = new Map();
for (let id = 0; id < 150000; id++) {
  store.set(id, { id, name: `order ${id}`, lines: [draw(1000), draw(1000), draw(1000)], open: true });
}

const requests = Number(process.argv[2] || 2000000);
let cache = new Map();
let answered = 0;
for (let request = 0; request < requests; request++) {
  // Half of the requests go to a twentieth of the orders.
  const id = request % 2 ? draw(150000) : draw(7500);
  const order = store.get(id);
  const answer = { id, total: order.lines.reduce((sum, line) => sum + line, 0), tags: [order.name, String(request)] };
  if (request % 8 === 0) cache.set(request, answer);
  if (cache.size > 60000) cache = new Map();
  if (request % 50 === 0) store.set(id, { ...order, lines: [...order.lines, draw(1000)].slice(-4) });
  answered += answer.total & 1;
}
console.log(answered, store.size, cache.size);

// A service over HTTP with 60,000 records, and a client that asks each 50 ms. Prints how long each request took, in ns.
"use strict";
const http = require("http");

const rounds = Number(process.argv[2]);
const RECORDS = 60000;
const records = new Map();
for (let number = 0; number < RECORDS; number++) {
  records.set(number, { name: `record ${number}`, tags: [number, number + 1], text: "x".repeat(100) + number });
}

// xorshift: the same look-ups in each run.
function generator(seed) {
  let state = seed * 2654435761 + 1 >>> 0;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

const server = http.createServer((request, response) => {
  const draw = generator(Number(request.url.slice(1)) + 1);
  let length = 0;
  for (let i = 0; i < 5000; i++) {
    const record = records.get(draw(draw(10) < 8 ? RECORDS / 10 : RECORDS));
    length += record.name.length + record.text.charCodeAt(record.text.length - 1);
  }
  response.end(String(length));
});

const took = [];
function ask(port) {
  const began = process.hrtime.bigint();
  http.get({ port, path: `/${took.length}`, agent: false }, (response) => {
    response.resume();
    response.on("end", () => {
      took.push(process.hrtime.bigint() - began);
      if (took.length < rounds) {
        setTimeout(ask, 50, port);
      } else {
        server.close();
        console.log(took.join("\n"));
      }
    });
  });
}
server.listen(0, "127.0.0.1", () => setTimeout(ask, 50, server.address().port));

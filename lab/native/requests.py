"""A service over HTTP with 60,000 records in a dictionary, and a client that asks each 50 ms. Prints how long each request took."""
import http.client
import http.server
import random
import sys
import threading
import time

ROUNDS = int(sys.argv[1])
RECORDS = 60_000
records = {number: {"name": f"record {number}", "tags": [number, number + 1], "text": "x" * 200} for number in range(RECORDS)}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        chance = random.Random(int(self.path[1:]))
        # Four of five look-ups are among a tenth of the records.
        numbers = [chance.randrange(RECORDS // 10 if chance.random() < 0.8 else RECORDS) for _ in range(1500)]
        body = str(sum(len(records[number]["name"]) + len(records[number]["text"]) for number in numbers)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
took = []
for number in range(ROUNDS):
    time.sleep(0.05)
    began = time.perf_counter_ns()
    client = http.client.HTTPConnection("127.0.0.1", server.server_address[1])
    client.request("GET", f"/{number}")
    client.getresponse().read()
    client.close()
    took.append(time.perf_counter_ns() - began)
print("\n".join(map(str, took)))

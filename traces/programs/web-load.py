"""The files of a web server, and the load on it: web-load.py files, web-load.py load PORT REQUESTS.

`files` makes 240 pages of 100 to 900 KiB in folder www, and conf/maps, which has the server map each of them when it starts.
`load` asks for them with skew, over kept connections, as a browser that takes gzip, and ends the server.
"""

import http.client
import os
import random
import signal
import sys
import time

FILES = 240


def files():
    chance = random.Random(13)
    words = ["".join(chance.choices("etaoinshrdlu", k=chance.randrange(2, 10))) for _ in range(3000)]
    os.makedirs("www", exist_ok=True)
    os.makedirs("conf", exist_ok=True)
    with open("conf/maps", "w") as maps:
        for number in range(FILES):
            size, parts = chance.randrange(100_000, 900_000), ["<html><body>\n"]
            while size > 0:
                parts.append("<p>" + " ".join(chance.choices(words, k=200)) + "</p>\n")
                size -= len(parts[-1])
            path = f"www/{number}.html"
            with open(path, "w") as out:
                out.write("".join(parts))
            maps.write(f"MMapFile {os.path.abspath(path)}\n")


def load(port, requests):
    chance = random.Random(14)
    while not os.path.exists("server.pid"):
        time.sleep(0.1)
    connection, taken = http.client.HTTPConnection("127.0.0.1", port, timeout=600), 0
    for number in range(requests):
        # Popular files change slowly: those of the morning are not those of the evening.
        shift = number * FILES // (2 * requests)
        page = (int(chance.random() ** 2.5 * FILES) + shift) % FILES
        connection.request("GET", f"/{page}.html", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        taken += len(answer.read())
        if answer.status != 200 or answer.getheader("Content-Encoding") != "gzip":
            raise SystemExit(f"page {page}: {answer.status}")
    with open("server.pid") as pid:
        os.kill(int(pid.read()), signal.SIGTERM)
    print(f"{requests} requests, {taken} bytes")


if sys.argv[1] == "files":
    files()
else:
    load(int(sys.argv[2]), int(sys.argv[3]))

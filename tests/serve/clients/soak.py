#!/usr/bin/env python3
"""Loads a running `ingot serve` with well- and ill-behaved clients, and looks at what is left of them.

    ingot serve MODEL --port 8000 --quiet --kv-memory 64MiB &
    python tests/serve/clients/soak.py http://127.0.0.1:8000 --requests 100000 --pid $!

Clients read whole answers, go in their midst, read slowly, close half of the connection, miss their deadlines, send
broken bodies and broken HTTP, and ask for more than there is room for. --streams opens so many streams at once first
(the server takes them with --max-connections and --max-waiting). Exit code 0: every request was answered or closed,
answers to good requests are good, nothing is running at the end and no cache is held, and the memory of the process
(--pid, Linux) has not grown since the first quarter by more than --growth percent. --compare has so many requests of
good clients alone come first: beside the others 99 % of good requests may take 1.2 times as long as then. --failures
has a line of JSON for each request that went wrong: what was sent, and what came, whole.
"""
import argparse
import json
import random
import resource
import selectors
import socket
import sys
import threading
import time
import urllib.parse
import urllib.request

LATER = 1.2  # times as long as beside good clients alone


class Recorded:
    """A connection that keeps what goes over it."""

    def __init__(self, connection):
        self.connection, self.sent, self.received = connection, [], []

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def sendall(self, data):
        self.sent.append(data)
        self.connection.sendall(data)

    def recv(self, count):
        piece = self.connection.recv(count)
        self.received.append(piece)
        return piece

    def told(self):
        text = [b"".join(pieces).decode("latin-1") for pieces in (self.sent, self.received)]
        return {"sent": text[0], "received": text[1]}


class Soak:
    def __init__(self, options):
        self.failure_file = options.failures and open(options.failures, "a", encoding="utf-8")
        address = urllib.parse.urlsplit(options.url)
        self.host, self.port = address.hostname, address.port or 80
        self.key, self.timeout = options.api_key, options.timeout
        self.left, self.clients = 0, options.clients
        self.lock = threading.Lock()
        self.counts, self.failures, self.seconds = {}, [], []

    def request(self, path, body, length=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.key}\r\nConnection: close\r\n"
        return head.encode() + b"Content-Length: %d\r\n\r\n" % (len(data) if length is None else length) + data

    def body(self, random_, **more):
        words = " ".join(random_.choice("one two three four five six".split()) for _ in range(random_.randrange(1, 30)))
        return {"prompt": words, "max_tokens": random_.randrange(1, 40), **more}

    def read_all(self, connection):
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
        answer = b"".join(pieces)
        # None of these clients has a right to it.
        if answer[9:12] == b"500" or b'"server_error"' in answer:
            raise OSError("an internal error")
        return answer

    # Each kind of client says whether what came is what has to come.
    def whole(self, connection, random_):
        connection.sendall(self.request("/v1/completions", self.body(random_)))
        answer = self.read_all(connection)
        return (answer.startswith(b"HTTP/1.1 200") and b'"finish_reason"' in answer) or b" 429 " in answer[:20]

    def stream(self, connection, random_):
        connection.sendall(self.request("/v1/completions", self.body(random_, stream=True)))
        answer = self.read_all(connection)
        return b"data: [DONE]" in answer or b" 429 " in answer[:20]

    def leaves(self, connection, random_):
        connection.sendall(self.request("/v1/completions", self.body(random_, stream=True, max_tokens=200)))
        connection.recv(random_.randrange(1, 400))
        return True

    def half_closes(self, connection, random_):
        connection.sendall(self.request("/v1/completions", {"prompt": "a", "max_tokens": 8}))
        connection.shutdown(socket.SHUT_WR)
        self.read_all(connection)
        return True

    def reads_slowly(self, connection, random_):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(self.request("/v1/completions", self.body(random_, stream=True)))
        while connection.recv(200):
            time.sleep(0.002)
        return True

    def sends_broken_json(self, connection, random_):
        body = json.dumps(self.body(random_)).encode()
        connection.sendall(self.request("/v1/completions", body[:random_.randrange(len(body))]))
        return self.read_all(connection).startswith(b"HTTP/1.1 400")

    def sends_broken_http(self, connection, random_):
        connection.sendall(bytes(random_.randrange(256) for _ in range(60)) + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        self.read_all(connection)
        return True

    def stops_in_the_body(self, connection, random_):
        connection.sendall(self.request("/v1/completions", b"{", length=1000))
        return True

    def asks_for_too_much(self, connection, random_):
        connection.sendall(self.request("/v1/completions", {"prompt": "word " * 200000, "max_tokens": 4}))
        return b" 400 " in self.read_all(connection)[:20]

    def structured(self, connection, random_):
        schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
        body = self.body(random_, response_format={"type": "json_schema", "json_schema": {"schema": schema}}, max_tokens=60)
        connection.sendall(self.request("/v1/completions", body))
        answer = self.read_all(connection)
        return answer.startswith(b"HTTP/1.1 200") or b" 429 " in answer[:20]

    def misses_its_deadline(self, connection, random_):
        stream = random_.random() < 0.5
        body = self.body(random_, stream=stream, timeout=random_.choice((0.0001, 0.003, 0.02)), max_tokens=400, ignore_eos=True)
        connection.sendall(self.request("/v1/completions", body))
        answer = self.read_all(connection)
        told = b'"timeout"' in answer if stream else answer.startswith(b"HTTP/1.1 504")
        return told or b"data: [DONE]" in answer or b" 200 " in answer[:20] or b" 429 " in answer[:20]

    GOOD = [(whole, 30), (stream, 30)]
    KINDS = [*GOOD, (leaves, 12), (half_closes, 5), (reads_slowly, 3), (sends_broken_json, 5),
             (sends_broken_http, 5), (stops_in_the_body, 4), (asks_for_too_much, 1), (structured, 5), (misses_its_deadline, 4)]

    def start(self, requests, kinds):
        """Threads of clients that send so many requests together."""
        self.left = requests
        threads = [threading.Thread(target=self.client, args=(seed, kinds)) for seed in range(self.clients)]
        for thread in threads:
            thread.start()
        return threads

    def client(self, seed, of):
        random_ = random.Random(seed)
        kinds, weights = zip(*of)
        while True:
            with self.lock:
                if self.left == 0:
                    return
                self.left -= 1
            kind = random_.choices(kinds, weights)[0]
            start = time.monotonic()
            recorded, problem = None, "is not what has to come"
            try:
                with socket.create_connection((self.host, self.port), timeout=self.timeout) as connection:
                    recorded = Recorded(connection)
                    good = kind(self, recorded, random_)
            except ConnectionError as error:
                good = kind.__name__ in ("leaves", "half_closes", "sends_broken_http", "stops_in_the_body", "asks_for_too_much")
                problem = repr(error)
            except OSError as error:
                good, problem = False, repr(error)
            with self.lock:
                self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
                if kind.__name__ in ("whole", "stream"):
                    self.seconds.append(time.monotonic() - start)
                if not good:
                    self.failed(kind.__name__, problem, recorded)

    def failed(self, kind, problem, recorded):
        self.failures.append(kind)
        told = {"time": time.strftime("%H:%M:%S"), "kind": kind, "problem": problem, **(recorded.told() if recorded else {})}
        print(json.dumps(told)[:2000], file=sys.stderr, flush=True)
        if self.failure_file:
            print(json.dumps(told), file=self.failure_file, flush=True)

    def open_streams(self, count):
        """So many streams at once; how many ended as they have to."""
        random_, selector, answers = random.Random(0), selectors.DefaultSelector(), {}
        for _ in range(count):
            connection = socket.create_connection((self.host, self.port), timeout=self.timeout)
            connection.sendall(self.request("/v1/completions", self.body(random_, stream=True)))
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
            answers[connection] = b""
        good = 0
        while selector.get_map():
            ready = selector.select(self.timeout)
            if not ready:
                return good
            for key, _ in ready:
                piece = key.fileobj.recv(65536)
                answers[key.fileobj] = (answers[key.fileobj] + piece)[-100:]
                if not piece:
                    good += b"data: [DONE]" in answers.pop(key.fileobj)
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
        return good

    def metrics(self):
        request = urllib.request.Request(f"http://{self.host}:{self.port}/metrics", headers={"Authorization": f"Bearer {self.key}"})
        lines = urllib.request.urlopen(request, timeout=10).read().decode().splitlines()
        return {line.split("{")[0].split(" ")[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


def memory(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def percentile(seconds, share):
    return sorted(seconds)[len(seconds) * share // 100]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--compare", type=int, default=0, help="so many requests of good clients alone first")
    parser.add_argument("--streams", type=int, default=0, help="open so many streams at once, first")
    parser.add_argument("--api-key", default="none")
    parser.add_argument("--pid", type=int, help="the server's process: its memory is watched")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that a client waits for what comes next")
    parser.add_argument("--failures", help="a file that gets each request that went wrong, with its answer")
    parser.add_argument("--growth", type=float, default=1, help="percent that its memory may grow")
    options = parser.parse_args()
    soak = Soak(options)
    problems = []
    if options.streams:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        start = time.monotonic()
        good = soak.open_streams(options.streams)
        print(f"streams: {good} of {options.streams} ended well, {time.monotonic() - start:.1f} s")
        if good < options.streams:
            problems.append(f"{options.streams - good} of {options.streams} streams did not end well")
    alone = None
    if options.compare:
        for thread in soak.start(options.compare, Soak.GOOD):
            thread.join()
        alone, soak.seconds, soak.counts = percentile(soak.seconds, 99), [], {}
    threads = soak.start(options.requests, Soak.KINDS)
    quarter, twentieths = None, 0
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)
        done = options.requests - soak.left
        if options.pid and done * 20 > options.requests * (twentieths + 1):
            twentieths = done * 20 // options.requests
            print(f"{time.strftime('%H:%M:%S')} {done} requests: {memory(options.pid)} KiB", flush=True)
        if options.pid and quarter is None and soak.left <= options.requests * 3 // 4:
            quarter = memory(options.pid)
    for _ in range(100):  # those that left are cancelled before the next step
        metrics = soak.metrics()
        if metrics["vllm:num_requests_running"] == metrics["vllm:num_requests_waiting"] == 0 and metrics["ingot:http_connections"] <= 1:
            break
        time.sleep(0.1)
    print(json.dumps(soak.counts))
    if soak.seconds:
        beside = percentile(soak.seconds, 99)
        print(f"answers: median {percentile(soak.seconds, 50):.3f} s, 99 % {beside:.3f} s"
              + (f", of good clients alone {alone:.3f} s" if alone else ""))
        if alone and beside > LATER * alone:
            problems.append(f"99 % of good requests took {beside / alone:.2f} times as long as of good clients alone")
    if soak.failures:
        problems.append(f"{len(soak.failures)} requests failed: {sorted(set(soak.failures))}")
    for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"):
        if metrics[name] != 0:
            problems.append(f"{name} is {metrics[name]} at the end")
    if metrics["ingot:http_connections"] > 1:
        problems.append(f"{metrics['ingot:http_connections']} connections are open at the end")
    if quarter is not None:
        end = memory(options.pid)
        print(f"memory: {quarter} KiB after a quarter, {end} KiB at the end")
        if end > quarter * (1 + options.growth / 100):
            problems.append(f"memory grew by {100 * (end / quarter - 1):.1f} %")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Times `ingot serve` beside llama.cpp's server with the same GGUF, in turns, and what serving costs by itself.

    tools/compare/serving.py peer build/bin/ingot MODEL.gguf [--record MACHINE]     # pip install xllamacpp
    tools/compare/serving.py alone build/bin/ingot MODEL.gguf [--record MACHINE]
    tools/compare/serving.py start build/bin/ingot MODEL.gguf [--record MACHINE]
    tools/compare/serving.py random build/bin/ingot MODEL.gguf TARGET.gguf          # a Llama of 0.35B with MODEL's tokenizer

xllamacpp runs llama.cpp's own HTTP server inside a Python process. Both servers get the same requests, by `ingot bench serve`;
every turn has words of its own, so that no cache of prompts helps either. Prints medians; --record adds them to bench/results.
"""
import argparse
import contextlib
import datetime
import json
import math
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))
import record  # noqa: E402
import results  # noqa: E402

PEER = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_parallel = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params.n_ctx = params.n_parallel * int(sys.argv[4])
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[5])
server = xllamacpp.Server(params)
time.sleep(1e9)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Server:
    def __init__(self, url, pid, seconds):
        self.url, self.pid, self.seconds = url, pid, seconds  # seconds: until it was ready

    def processor_time(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(command, url):
    """A server that is ready, and is ended at the end."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                get(f"{url}/health")
                break
            except (urllib.error.URLError, OSError):
                if process.poll() is not None:
                    sys.exit(f"serving.py: ended with {process.returncode}: {' '.join(map(str, command))}")
                time.sleep(0.002)
        yield Server(url, process.pid, time.perf_counter() - start)
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def ingot(given, *options):
    url = f"http://127.0.0.1:{(port := free_port())}"
    with running([given.ingot, "serve", given.model, "--port", str(port), "--threads", str(given.threads), "--quiet",
                  *map(str, options)], url) as server:
        yield server


@contextlib.contextmanager
def llama_cpp(given, slots):
    url = f"http://127.0.0.1:{(port := free_port())}"
    with running([given.python, "-c", PEER, given.model, str(port), str(slots), str(given.context), str(given.threads)], url) as server:
        yield server


def bench(given, *arguments):
    command = [given.ingot, "bench", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def load(given, server, clients, requests, words, tokens, seed, *more):
    before = server.processor_time()
    run = bench(given, "serve", "--url", server.url, "--clients", clients, "--requests", requests, "--prompt-words", words,
                "-n", tokens, "--seed", seed, *more)
    return {**run, "tokens_per_processor_second": run["output_tokens"] / (server.processor_time() - before)}


class Report:
    """Prints rows, and keeps them for bench/results."""

    def __init__(self, given):
        self.given, self.runs = given, []
        rest = " ".join(sys.argv[4:])
        for option in ("--record", "--python", "--note"):  # which decide no result
            rest = rest.replace(f"{option} {getattr(given, option[2:])}", "")
        command = f"python3 tools/compare/serving.py {given.what} build/bin/ingot {pathlib.Path(given.model).name} {rest}"
        self.common = {"command": " ".join(command.split()),
                       **record.commit_of(given.ingot), **({"note": given.note} if given.note else {})}

    def add(self, **run):
        def short(value):
            return float(f"{value:.5g}") if isinstance(value, float) else value

        run = {k: short(v) if not isinstance(v, dict) else {n: short(p) for n, p in v.items()} for k, v in run.items()}
        beside = f", {run['peer']['name']} {run['peer']['median']}, ratio {run['ratio']}" if "peer" in run else ""
        beside += f", {run['limit_of']} {run['limit']}" if "limit" in run else ""
        print(f"{run['work']}: {run['median']} {run['unit']}{beside}", flush=True)
        self.runs.append({**run, **self.common})

    def end(self):
        if self.given.record:
            results.append(results.ROOT / self.given.record / f"{datetime.date.today()}.json", self.runs)


def peer(given, report):
    """Both servers, for each number of clients, in turns; the baseline's best of the numbers of slots counts."""
    goals, name = {1: 3, 8: 5}, pathlib.Path(given.model).stem
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(ingot(given, "--max-running", given.max_running) if given.max_running else ingot(given))
        peers = {slots: stack.enter_context(llama_cpp(given, slots)) for slots in given.slots}
        for clients in given.clients:
            made = {who: [] for who in ["ingot", *peers]}
            for turn in range(given.turns):
                for who, server in [("ingot", ours), *peers.items()]:
                    requests = max(3, clients * given.rounds)
                    made[who].append(load(given, server, clients, requests, given.words, given.tokens, 1000 * clients + turn))
            add_peer_rows(report, f"{name}, {clients} client{'s' * (clients > 1)}, {given.words} words", made, goals.get(clients, 6))


def add_peer_rows(report, work, made, goal):
    mine = made.pop("ingot")
    version = subprocess.run([report.given.python, "-c", "import importlib.metadata as m; print(m.version('xllamacpp'))"],
                             check=True, capture_output=True, text=True).stdout.strip()

    def median(runs, of):
        return statistics.median(map(of, runs))

    def rate(run):
        return run["tokens_per_processor_second" if report.given.processor_time else "output_tokens_per_second"]

    def first(run):
        return run["ttft_ms"]["p50"]

    output = "tokens/s of processor time" if report.given.processor_time else "tokens/s"
    for what, unit, better, of, wanted in (("output", output, "higher", rate, goal), ("time to first token", "ms", "lower", first, 4)):
        pick = max if better == "higher" else min
        slots = pick(made, key=lambda s: median(made[s], of))
        turns = [of(a) / of(b) if better == "higher" else of(b) / of(a) for a, b in zip(mine, made[slots])]
        report.add(group=f"Serving, {what}", work=work, unit=unit, better=better, median=median(mine, of),
                   spread=[min(map(of, mine)), max(map(of, mine))],
                   peer={"name": f"llama.cpp, {slots} slots", "version": f"xllamacpp {version}", "median": median(made[slots], of)},
                   ratio=statistics.median(turns), goal=wanted)


def decoding_rate(run, tokens):
    """Tokens a second that one of the clients gets, behind its first."""
    return (tokens - 1) / (run["e2e_ms"]["p50"] - run["ttft_ms"]["p50"]) * 1e3


def overhead(given, report, name):
    """What HTTP and the scheduler take from the engine's rate."""
    pairs = []
    with ingot(given) as server:
        for turn in range(given.turns):
            alone = bench(given, "decode", given.model, "-n", 128, "--runs", 1, "--threads", given.threads)["tokens_per_second"]
            pairs.append((decoding_rate(load(given, server, 1, 2, 1, 128, turn, "--completions"), 128), alone))
    add_share(report, f"{name}, 1 client, beside the engine alone", pairs, 0.97)
    pairs = []
    with ingot(given, "--max-running", 64) as server:
        for turn in range(given.turns):
            alone = bench(given, "decode", given.model, "-n", 64, "--batch", 64, "--runs", 1, "--threads", given.threads)["tokens_per_second"]
            served = load(given, server, 64, 64, 1, 64, turn, "--completions")
            pairs.append((served["output_tokens_per_second"], alone))
    add_share(report, f"{name}, 64 streams, beside the engine alone", pairs, 0.95)


def add_share(report, work, pairs, goal):
    share = statistics.median(a / b for a, b in pairs)
    limit = statistics.median(b for _, b in pairs)
    report.add(group="Serving, overhead", work=work, unit="tokens/s", better="higher", median=share * limit, limit=limit,
               limit_of="ingot bench decode in turns", limit_goal=goal)


def prefixes(given, report, name):
    """A system prompt of 1,500 words that all share: cold, in memory, and from the disk after a restart."""
    words, own = 1500, 20
    cold, warm, disk = [], [], []

    def first(server, requests, seed, share):
        run = load(given, server, 1, requests, words + own, 2, seed, "--shared-words", words)
        return run["ttft_ms"][share]

    for turn in range(given.turns):
        with tempfile.TemporaryDirectory() as directory:
            with ingot(given, "--prompt-cache", directory) as server:
                cold.append(first(server, 1, turn, "p50"))
                warm.append(first(server, 5, turn, "p50"))
                wait_for_files(directory)
            with ingot(given, "--prompt-cache", directory) as server:
                disk.append(first(server, 1, turn, "p50"))
    for what, times, goal in (("in memory", warm, 10), ("on disk, after a restart", disk, 5)):
        report.add(group="Serving, reused prompts", work=f"{name}, 1,500 words, {what}", unit="ms", better="lower",
                   median=statistics.median(times), spread=[min(times), max(times)],
                   peer={"name": "the same, read anew", "version": "", "median": statistics.median(cold)},
                   ratio=statistics.median(c / t for c, t in zip(cold, times)), goal=goal)


def wait_for_files(directory):
    """The prompt cache is written beside the work: until nothing is added for a while."""
    before = -1
    while before != (now := sum(f.stat().st_size for f in pathlib.Path(directory).rglob("*") if f.is_file())):
        before = now
        time.sleep(0.5)


def waste(given, report, name):
    """The share of the memory of 64 requests of mixed lengths that holds no token."""
    seen, done = [], threading.Event()
    with ingot(given, "--max-running", 64) as server:
        def watch():
            while not done.wait(0.05):
                lines = dict(line.rsplit(" ", 1) for line in get(f"{server.url}/metrics").splitlines() if line and line[0] != "#")
                running = next(float(v) for k, v in lines.items() if k.startswith("vllm:num_requests_running"))
                if running >= 48:
                    seen.append(next(float(v) for k, v in lines.items() if k.startswith("ingot:kv_cache_waste_perc")))

        watcher = threading.Thread(target=watch)
        watcher.start()
        loads = [threading.Thread(target=load, args=(given, server, 16, 32, words, tokens, words))
                 for words, tokens in ((20, 200), (100, 100), (300, 60), (700, 120))]
        for each in [*loads]:
            each.start()
        for each in loads:
            each.join()
        done.set()
        watcher.join()
    report.add(group="Serving, memory", work=f"{name}, share of keys' and values' memory without tokens, 64 mixed requests", unit="%",
               better="lower", median=100 * statistics.median(seen), spread=[100 * min(seen), 100 * max(seen)],
               note=f"goal 4 %; {len(seen)} samples with 48 requests and more")


def alone(given, report):
    name = pathlib.Path(given.model).stem
    overhead(given, report, name)
    prefixes(given, report, name)
    waste(given, report, name)


def start(given, report):
    """Until /health answers, the file and its packed weights in the page cache."""
    times = []
    for _ in range(given.turns + 1):
        url = f"http://127.0.0.1:{(port := free_port())}"
        with running([given.ingot, "serve", given.model, "--port", str(port), "--threads", str(given.threads), "--quiet"], url) as server:
            times.append(server.seconds)
    times = times[1:]  # the first fills the cache
    report.add(group="Serving, start", work=f"{pathlib.Path(given.model).stem}, cold start to ready", unit="ms", better="lower",
               median=1e3 * statistics.median(times), spread=[1e3 * min(times), 1e3 * max(times)])


def random_llama(given):
    """A Llama with random weights and the vocabulary of another one, in Q8_0."""
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory) / "model"
        subprocess.run([given.ingot, "convert", given.model, folder, "--dtype", "bf16"], check=True)
        config = json.loads((folder / "config.json").read_text())
        config.update(hidden_size=given.hidden, num_hidden_layers=given.layers, intermediate_size=given.intermediate,
                      num_attention_heads=given.hidden // 64, num_key_value_heads=8)
        (folder / "config.json").write_text(json.dumps(config))
        write_random(folder / "model.safetensors", config)
        subprocess.run([given.ingot, "convert", folder, given.target, "--dtype", "q8_0"], check=True)


def write_random(path, config):
    import numpy

    h, f, kv = config["hidden_size"], config["intermediate_size"], config["num_key_value_heads"] * 64
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], h), "model.norm.weight": (h,)}
    for i in range(config["num_hidden_layers"]):
        block = {"input_layernorm": (h,), "post_attention_layernorm": (h,), "self_attn.q_proj": (h, h), "self_attn.k_proj": (kv, h),
                 "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, h), "mlp.gate_proj": (f, h), "mlp.up_proj": (f, h), "mlp.down_proj": (h, f)}
        shapes.update({f"model.layers.{i}.{n}.weight": s for n, s in block.items()})
    at, header = 0, {}
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    random = numpy.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            values = random.standard_normal(shape, "float32") * 0.02 if len(shape) > 1 else numpy.ones(shape, "float32")
            file.write((values.view("uint32") >> 16).astype("uint16").tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["peer", "alone", "start", "random"])
    parser.add_argument("ingot")
    parser.add_argument("model")
    parser.add_argument("target", nargs="?", help="of random")
    parser.add_argument("--python", default=sys.executable, help="one that has xllamacpp")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--slots", type=int, nargs="+", default=[8], help="of llama.cpp's server, one server each")
    parser.add_argument("--max-running", type=int, help="of ingot serve")
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--context", type=int, default=1024, help="of each slot")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="requests of each client")
    parser.add_argument("--processor-time", action="store_true", help="tokens by the seconds of processors that a server took: where other programs run, too")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=26)
    parser.add_argument("--intermediate", type=int, default=2816)
    parser.add_argument("--record", metavar="MACHINE", help="a folder of bench/results")
    parser.add_argument("--note")
    given = parser.parse_args()
    if given.what == "random":
        random_llama(given)
        return
    report = Report(given)
    {"peer": peer, "alone": alone, "start": start}[given.what](given, report)
    report.end()


if __name__ == "__main__":
    main()

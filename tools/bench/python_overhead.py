#!/usr/bin/env python3
"""Times the Python package against the commands and C++ loops that do the same, in turns, and what small calls cost.

    OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive PYTHONPATH=build/python python3 tools/bench/python_overhead.py \\
        --ingot build/bin/ingot --environment-probe build/bench/environment_probe --record xeon

Rows: `import ingot`, a small operation (beside PyTorch's where that is installed), a DLPack round trip, LLM.generate and its stream beside `ingot
bench decode`, Trainer.step beside `ingot train`, ingot.rl.VectorGame beside the same loop in C++, and forecasting a polars frame
beside `ingot forecast` on the same CSV, less its parsing. Models have random weights and are made by the run. The command and
the package have to be of the same build.
"""
import argparse
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ingot
import results
from record import commit_of

GROUP = "Python beside the commands"


def timed(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def row(work, unit, ours, peer, theirs, goal=None, better="higher", note=None):
    """A result of measurements in turn: medians, and the median of the ratios of turns."""
    paired = [a / b if better == "higher" else b / a for a, b in zip(ours, theirs, strict=True)]
    made = {"group": GROUP, "work": work, "unit": unit, "better": better, "median": statistics.median(ours),
            "spread": [min(ours), max(ours)], "peer": {**peer, "median": statistics.median(theirs)}, "ratio": statistics.median(paired)}
    return {**made, **({"goal": goal} if goal else {}), **({"note": note} if note else {})}


def command_peer(name):
    return {"name": name, "version": ingot.__version__}


def config(folder, name, steps):
    text = "\n\n".join(f"The {a} sat on the {p}." for a in ("cat", "dog", "hen", "fox") for p in ("mat", "hill", "roof") * 60)
    (folder / "text.txt").write_text(text)
    return {
        "architecture": {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8},
        "datasets": [{"path": str(folder / "text.txt")}],
        "vocab_size": 280,
        "sequence_len": 64,
        "micro_batch_size": 4,
        "max_steps": steps,
        "output_dir": str(folder / name),
        "eval_steps": 0,
        "save_steps": 0,
        "report_to": "jsonl",
    }


def decode(o, folder):
    """Tokens per second: the command, generate(), and its stream."""
    model = ingot.Trainer(config(folder, "model", 1)).train()["model"]
    command, whole, streamed = [], [], []
    options = dict(max_tokens=o.tokens, temperature=0, ignore_eos=True)
    first = [5]

    def ask(llm, **more):
        answer = llm.generate(first, **more, **options)
        return list(answer) if more else answer

    def bench():
        arguments = [o.ingot, "bench", "decode", model, "-n", str(o.tokens), "--runs", "3", "--json"]
        result = subprocess.run(arguments, check=True, capture_output=True, text=True)
        command.append(json.loads(result.stdout)["tokens_per_second"])

    def measure(into, llm, **more):
        into.append(statistics.median(o.tokens / timed(lambda: ask(llm, **more)) for _ in range(3)))

    # Many short turns, each in another order: what else the machine does changes within seconds.
    with ingot.LLM(model) as llm:
        kinds = [bench, lambda: measure(whole, llm), lambda: measure(streamed, llm, stream=True)]
        ask(llm)
        for turn in range(o.decode_turns):
            for kind in kinds[turn % 3:] + kinds[:turn % 3]:
                kind()
    peer = command_peer("ingot bench decode")
    work = f"20M parameters, f32, {o.tokens} tokens"
    yield row(f"LLM.generate, {work}", "tokens/s", whole, peer, command, 0.98)
    yield row(f"LLM.generate(stream=True), {work}", "tokens/s", streamed, peer, command, 0.98)
    yield row(f"LLM.generate(stream=True) beside generate(), {work}", "tokens/s", streamed, {"name": "LLM.generate", "version": ingot.__version__}, whole, 0.98)


def step_seconds(path):
    """Of the steps that a run's metrics.jsonl tells, the first ones left out."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record["seconds"] for record in records if "learning_rate" in record and record["step"] > 3]


def train(o, folder):
    """Milliseconds of an optimizer step: the command's, and Trainer.step()'s."""
    command, python = [], []
    for turn in range(o.turns):
        name = f"command{turn}"
        path = folder / f"{name}.yaml"
        path.write_text(json.dumps(config(folder, name, o.steps)))
        subprocess.run([o.ingot, "train", str(path)], check=True, capture_output=True)
        command.append(1e3 * statistics.median(step_seconds(next((folder / name).rglob("metrics.jsonl")))))
        with ingot.Trainer(config(folder, f"python{turn}", o.steps)) as trainer:
            python.append(1e3 * statistics.median([timed(trainer.step) for _ in range(o.steps)][3:]))
    yield row("Trainer.step, 20M parameters, 4 × 64", "ms", python, command_peer("ingot train"), command, 0.99, "lower")


def environment(o, folder):
    """Microseconds of a step of 512 tables, each taking the first legal action: the same loop in C++ and in Python. Processor
    time, so that other programs do not count."""
    command, python = [], []
    every = o.environment_steps + o.environment_steps // 10  # the first ones warm up
    for _ in range(o.turns):
        started, played = (children_seconds([o.environment_probe, "mahjong", "512", str(n)])[1] for n in (0, o.environment_steps))
        command.append(1e6 * (played - started) / every)
        games = ingot.rl.VectorGame("mahjong", games=512, seed=1)

        def play(steps, games=games):
            for _ in range(steps):
                games.step(games.observe()[1].argmax(1))

        python.append(1e6 * own_seconds(lambda: play(every))[1] / every)
    peer = {"name": "the same loop in C++", "version": ingot.__version__}
    yield row("VectorGame, mahjong, 512 tables, a step of all", "µs", python, peer, command, 0.95, "lower", "processor time")


def children_seconds(arguments):
    """Wall and processor seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = timed(lambda: subprocess.run(arguments, check=True, capture_output=True))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def own_seconds(function):
    before = time.process_time()
    return timed(function), time.process_time() - before


def forecast(o, folder):
    """Seconds to fit to a frame of many rows and to forecast it, and those of the command on the same CSV, less its parsing: what a
    forecast of the file takes here beyond a forecast of the frame's table."""
    import polars

    rows = o.rows_of_frame
    start = datetime.datetime(2000, 1, 1)
    ds = polars.datetime_range(start, start + datetime.timedelta(minutes=rows - 1), "1m", time_unit="us", eager=True)
    at = polars.Series(range(rows))
    frame = polars.DataFrame({"ds": ds, "y": (at % 1440 / 229.2).sin() + (at % 10080 / 1604.3).cos() + (at * 7919 % 1009) / 1009})
    path = folder / "frame.csv"
    frame.write_csv(path)
    settings = {"model": o.forecaster, "horizon": 24, "lookback": 96, "epochs": 1, "batch_size": 256}
    fit = [o.ingot, "forecast", "fit", str(path), *(f"--set={key}={value}" for key, value in settings.items())]
    ours, theirs, parsing = [], [], []  # wall and processor seconds
    fitted = None

    def work():
        nonlocal fitted
        fitted = ingot.forecast.Forecaster(**settings).fit(frame)
        fitted.predict(frame)

    def python():
        ours.append(own_seconds(work))

    def command():
        out = str(folder / f"fitted{len(theirs)}")
        commands = [[*fit, "-o", out], [o.ingot, "forecast", "predict", out, str(path)]]
        theirs.append([sum(seconds) for seconds in zip(*map(children_seconds, commands), strict=True)])

    for turn in range(o.forecast_turns):
        for kind in (python, command)[:: 1 if turn % 2 else -1]:
            kind()
    for _ in range(o.forecast_turns):
        of_file, of_frame = (own_seconds(lambda table=table: fitted.predict(table)) for table in (path, frame))
        of_arrow = own_seconds(lambda: ingot._core._Table.of_arrow(frame, "the frame", None))
        parsing.append([a - b + c for a, b, c in zip(of_file, of_frame, of_arrow, strict=True)])
    peer = command_peer("ingot forecast, less its parsing")
    name = f"{rows / 1e6:g} million rows of polars, {o.forecaster}, fit and predict"
    for kind, clock in enumerate(("", ", processor time")):
        parse = statistics.median(seconds[kind] for seconds in parsing)
        less = [seconds[kind] - 2 * parse for seconds in theirs]
        note = f"parsing, done twice: {parse:.2f} s each"
        yield row(name + clock, "s", [seconds[kind] for seconds in ours], peer, less, 1 / 1.1, "lower", note)


def microseconds(function, calls=20000):
    """Of a call, by the thread's processor time: other programs do not count."""
    begin = time.thread_time()
    for _ in range(calls):
        function()
    return (time.thread_time() - begin) / calls * 1e6


def small_calls(o, folder):
    x, y = ingot.ones(4), ingot.ones(4)
    add, trip, torch_add, torch_trip = [], [], [], []
    try:
        import torch
    except ImportError:
        torch = None
    for _ in range(o.turns):
        add.append(microseconds(lambda: x + y))
        trip.append(microseconds(lambda: ingot.from_dlpack(x)))
        if torch:
            a, b = torch.ones(4), torch.ones(4)
            torch_add.append(microseconds(lambda: a + b))
            torch_trip.append(microseconds(lambda: torch.from_dlpack(a)))
    assert ingot.from_dlpack(x).data_ptr() == x.data_ptr()
    rows = [("x + y of 4 elements", add, torch_add, 1.5), ("DLPack out and in, nothing copied", trip, torch_trip, 1.0)]
    for work, ours, theirs, goal in rows:
        note = f"goal: {goal} µs; processor time"
        if torch:
            yield row(work, "µs", ours, {"name": "PyTorch", "version": torch.__version__}, theirs, None, "lower", note)
        else:
            yield {"group": GROUP, "work": work, "unit": "µs", "better": "lower", "median": statistics.median(ours),
                   "spread": [min(ours), max(ours)], "note": note}


def imports(o, folder):
    """What `import ingot` adds to a start of Python, in turns with one that imports nothing."""
    started = {"import ingot": [], "pass": []}
    for _ in range(3 * o.turns):
        for source, seconds in started.items():
            seconds.append(timed(lambda: subprocess.run([sys.executable, "-c", source], check=True)) * 1e3)
    added = [ours - empty for ours, empty in zip(started["import ingot"], started["pass"], strict=True)]
    yield {"group": GROUP, "work": "import ingot", "unit": "ms", "better": "lower", "median": statistics.median(added),
           "spread": [min(added), max(added)], "note": "goal: 100 ms; beyond the start of Python itself"}


ROWS = {"import": imports, "calls": small_calls, "decode": decode, "train": train, "environment": environment, "forecast": forecast}


def rounded(run):
    figures = {k: float(f"{v:.4g}") for k, v in run.items() if isinstance(v, float)}
    peer = {"peer": {**run["peer"], "median": float(f"{run['peer']['median']:.4g}")}} if "peer" in run else {}
    return {**run, **figures, **peer, "spread": [float(f"{v:.4g}") for v in run["spread"]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ingot", default="ingot", help="the command")
    parser.add_argument("--environment-probe", default="environment_probe", help="build/bench/environment_probe (./dev bench builds it)")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"some of {', '.join(ROWS)}")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--decode-turns", type=int, default=21)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--environment-steps", type=int, default=400)
    parser.add_argument("--rows-of-frame", type=int, default=5_000_000)
    parser.add_argument("--forecaster", default="dlinear")
    parser.add_argument("--forecast-turns", type=int, default=3)
    parser.add_argument("--record", metavar="MACHINE", help="add the results to bench/results/MACHINE")
    parser.add_argument("--note", help="what else decides the results")
    o = parser.parse_args()
    made = []
    with tempfile.TemporaryDirectory() as name:
        for kind in o.rows.split(","):
            for run in ROWS[kind](o, Path(name)):
                made.append(rounded(run))
                print(json.dumps(made[-1], ensure_ascii=False), flush=True)
    if o.record:
        threads = f"OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']} " if "OMP_NUM_THREADS" in os.environ else ""
        common = {"command": f"{threads}tools/bench/python_overhead.py --rows {o.rows}", **commit_of(o.ingot)}
        noted = [{**run, **common, **({"note": "; ".join(n for n in (run.get("note"), o.note) if n)} if o.note else {})} for run in made]
        path = results.ROOT / o.record / f"{datetime.date.today()}.json"
        results.append(path, noted)
        print(path, file=sys.stderr)


if __name__ == "__main__":
    main()

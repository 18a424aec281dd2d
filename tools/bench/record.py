#!/usr/bin/env python3
"""Runs an `ingot bench` command and adds what it measured to bench/results/MACHINE/DATE.json.

    OMP_NUM_THREADS=2 tools/bench/record.py --goal 1.4 epyc-zen4 build/bin/ingot bench train --batch 4 --against torch

It knows train, finetune, selfplay, policy, decode, prefill and kernels. The commit is that of the binary.
"""
import argparse
import datetime
import json
import os
import re
import shlex
import subprocess
import sys

import results


def peers_of(report, base):
    """A run for each PyTorch that ran beside it, or one without a baseline."""
    beside = report.get("peers", [])
    yield from ({**base, "peer": {"name": p["name"], "version": p["version"], "median": p["step_ms"]}, "ratio": p["ratio"]}
                for p in beside)
    if not beside:
        yield base


def training(report):
    rate, reached = report["matmul_gflops"], report["gflops"]
    if "shape" in report:
        work = f"{report['shape']}, {report['accumulate']} × ({report['batch']} × {report['sequence']}), {report['optimizer']}"
        work += "" if report["recompute"] == "false" else f", recompute {report['recompute']}"
        group = f"Training steps, {report['dtype']}"
    else:
        group, work = "Policy network, 40 blocks of 256 channels", f"{report['work']}, batch {report['batch']}"
    return peers_of(report, {"group": group, "work": work, "unit": "ms", "better": "lower", "median": report["step_ms"],
                             "limit": report["step_ms"] * reached / rate, "limit_of": "matmuls in the same run",
                             "note": f"peak memory {report['peak_memory_mib']:.0f} MiB"})


def finetune(report):
    rate, reached, step = report["matmul_gflops"], report["gflops"], report["step_ms"]
    work = f"{report['shape']}, rank {report['rank']}, base in {report['base']}, {report['accumulate']} × ({report['batch']} × {report['sequence']})"
    work += "" if report["recompute"] == "false" else f", recompute {report['recompute']}"
    if report["base"] not in ("f32", "bf16"):
        report = {**report, "peers": [{**p, "name": f"{p['name']}, bitsandbytes' NF4"} for p in report.get("peers", [])]}
    return peers_of(report, {"group": f"LoRA and QLoRA steps, {report['dtype']}", "work": work, "unit": "ms", "better": "lower", "median": step,
                             "limit": step * reached / rate, "limit_of": "matmuls in the same run",
                             "note": f"{report['tokens_per_second']:.0f} tokens/s; peak memory {report['peak_memory_mib']:.0f} MiB"})


def selfplay(report):
    network = f"{report['blocks']} blocks of {report['channels']} channels, {report['dtype']}"
    rate = report["matmul_gflops"]

    def row(work, median, limit=None, note=None):
        made = {"group": "Self-play in mahjong", "work": f"{work}, {network}", "unit": "decisions/s", "better": "higher", "median": median}
        if limit is not None:
            made.update({"limit": limit, "limit_of": "matmuls in the same run"})
        return {**made, **({"note": note} if note else {})}

    whole = row(f"whole, {report['tables']} tables", report["decisions_per_second"], note=f"{100 * report['games_share']:.1f} % in the games")
    beside = [{**whole, "peer": {"name": f"riichienv and {p['name']}", "version": p["version"],
                                 "median": 1e3 * report["tables"] * report["rollout_steps"] / p["step_ms"]}, "ratio": p["ratio"]}
              for p in report.get("peers", [])]
    evaluated, learned = report["evaluations_per_second"], report["minibatch"] / report["step_ms"] * 1e3
    step = row(f"PPO step, {report['minibatch']} decisions", learned, learned * rate / report["step_gflops"])
    steps = [{**step, "peer": {"name": p["name"], "version": p["version"], "median": 1e3 * report["minibatch"] / p["step_ms"]},
              "ratio": p["ratio"]} for p in report.get("step_peers", [])]
    return [*(beside or [whole]),
            row(f"network alone, {report['tables']} positions", evaluated, evaluated * rate / report["evaluation_gflops"]),
            *(steps or [step])]


def inference(report):
    decode = report["work"] == "decode"
    run = {"group": "Decoding" if decode else "Prompts",
           "work": f"{os.path.basename(report['model'])}, {report['format']}, {report['tokens']} tokens, batch {report['batch']}",
           "unit": "tokens/s", "better": "higher", "median": report["tokens_per_second"],
           "limit": report["limit_tokens_per_second"],
           "limit_of": "reading the weights" if decode else "matmuls in the same run"}
    if "ratio" in report:
        run["peer"] = {"name": "llama.cpp", "median": report["peer_tokens_per_second"]}
        run["ratio"] = report["ratio"]
    return [run]


def kernels(report):
    copy = report["copy_bytes_per_second"] / 1e9
    return [{"group": f"Kernels beside a copy, {report['dtype']}", "work": k["kernel"], "unit": "GB/s", "better": "higher",
             "median": k["bytes_per_second"] / 1e9, "limit": copy, "limit_of": "a copy in the same run",
             "note": f"{k['implementation']}, {report['threads']} threads"}
            for k in report["kernels"] if k.get("share_of_copy")]


READERS = {"train": training, "finetune": finetune, "selfplay": selfplay, "policy": training, "decode": inference, "prefill": inference, "kernels": kernels}


def runs_of(kind, report, common, peer_version=None):
    """The runs of one report (the JSON of `ingot bench KIND --json`), numbers to five digits."""
    made = []
    for run in READERS[kind](report):
        if "peer" in run:
            run["peer"].setdefault("version", peer_version)
        for part in (run, run.get("peer", {})):
            part.update({k: float(f"{v:.5g}") for k, v in part.items() if isinstance(v, float)})
        note = "; ".join(n for n in (run.get("note"), common.get("note")) if n)
        made.append({**run, **common, **({"note": note} if note else {})})
    return made


def shown_command(command):
    """The command with the settings of the environment that decide results, without the path of the binary."""
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if re.match(r"INGOT_(?!CACHE|BUILD|JOBS)|OMP_NUM_THREADS$", k)]
    return " ".join([*settings, "ingot", *map(shlex.quote, command[1:])])


def commit_of(binary):
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^commit\s+(\S+)", said, re.MULTILINE)
    return {"commit": found.group(1)} if found else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     usage="%(prog)s [--goal G] [--note N] [--peer-version V] MACHINE path/to/ingot bench KIND ...")
    parser.add_argument("machine", help="a folder of bench/results")
    parser.add_argument("--goal", type=float, help="for the ratio to the baseline")
    parser.add_argument("--note", help="what else decides the figure")
    parser.add_argument("--peer-version", help="of llama.cpp, which a report does not tell")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="path/to/ingot bench KIND ...")
    given = parser.parse_args()
    if len(given.command) < 3 or given.command[1] != "bench" or given.command[2] not in READERS:
        parser.error(f"the command is not `ingot bench KIND ...` with KIND one of {', '.join(READERS)}")
    if not (results.ROOT / given.machine / "machine.json").is_file():
        parser.error(f"bench/results/{given.machine}/machine.json is not there; write it first (name, hardware, software)")
    if READERS[given.command[2]] is inference and "--against" in given.command and not given.peer_version:
        parser.error("reports do not tell llama.cpp's version; name it with --peer-version, before the machine")
    said = subprocess.run([*given.command, "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    common = {"command": shown_command(given.command), **commit_of(given.command[0])}
    common.update({k: v for k, v in (("goal", given.goal), ("note", given.note)) if v is not None})
    path = results.ROOT / given.machine / f"{datetime.date.today()}.json"
    try:
        results.append(path, runs_of(given.command[2], json.loads(said), common, given.peer_version))
    except ValueError as error:
        sys.exit(f"record.py: {error}")
    print(path)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compiles the schemas of MaskBench (guidance-ai/jsonschemabench, maskbench/data) and follows their instances token by token, ours
(bench/schema_probe) beside llguidance with the same tokenizer: how many compile, which instances are judged wrongly, and what compiling
and a mask take, as a Markdown table. --list FILE writes what differs, a line of JSON for each schema.

tools/bench/json_schema_bench.py --data maskbench/data MODEL build/bench/schema_probe. Needs llguidance and numpy.
"""
import argparse
import collections
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import llguidance
import llguidance.numpy
import numpy


class Peer:
    def __init__(self, tokenizer):
        self.tokenizer = llguidance.LLTokenizer(tokenizer)
        self.bits = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def follow(self, matcher, tokens, times):
        for token in tokens:
            start = time.perf_counter()
            llguidance.numpy.fill_next_token_bitmask(matcher, self.bits)
            times.append((time.perf_counter() - start) * 1e6)
            if matcher.is_error() or not self.bits[0, token // 32] >> numpy.int32(token % 32) & 1:
                return False
            matcher.consume_token(token)
        return matcher.is_accepting()

    def measure(self, path):
        file = json.loads(path.read_text())
        start = time.perf_counter()
        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(file["schema"]))
        except ValueError as error:
            return {"error": str(error)}
        matcher = llguidance.LLMatcher(self.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            return {"error": matcher.get_error()}
        result = {"compile_us": (time.perf_counter() - start) * 1e6, "masks_us": [], "wrong": []}
        for index, test in enumerate(file.get("tests", [])):
            text = json.dumps(test["data"], indent=4, ensure_ascii=False)
            taken = self.follow(matcher.deep_copy(), self.tokenizer.tokenize_str(text), result["masks_us"])
            if taken != test["valid"]:
                result["wrong"].append({"test": index, "valid": test["valid"]})
        return result


def ours(probe, model, paths):
    """The probe's line for each file. A schema that ends it or takes more than a minute counts as an error."""
    results = {}
    while len(results) < len(paths):
        left = paths[len(results):]
        child = subprocess.Popen([probe, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for path in left:
            child.stdin.write(f"{path}\n")
            child.stdin.flush()
            line = child.stdout.readline()
            results[path] = json.loads(line) if line else {"error": f"the probe ended with status {child.wait()}"}
            if not line:
                break
        child.stdin.close()
        child.wait()
    return results


def row(name, results, of):
    compiled = [r for r in results.values() if "error" not in r]
    masks = sorted(t for r in compiled for t in r["masks_us"])
    times = sorted(r["compile_us"] for r in compiled)
    wrong = collections.Counter(w["valid"] for r in compiled for w in r["wrong"])
    at = lambda values, share: values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")
    return (f"| {name} | {len(compiled)} of {of} | {wrong[True]} | {wrong[False]} | {statistics.median(times):.0f} | {at(times, .99):.0f} "
            f"| {at(masks, .5):.1f} | {at(masks, .99):.0f} | {len(masks)} |")


def reason(error):
    """What kept a schema from compiling, without its location."""
    return re.sub(r" at #\S*|'#\S*'|\b\d+\b", "", error)[:90]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="take each Nth schema")
    parser.add_argument("--list", type=pathlib.Path)
    parser.add_argument("model", help="whose tokenizer is taken: a directory or a .gguf file")
    parser.add_argument("probe")
    options = parser.parse_args()
    paths = sorted(options.data.glob("*.json"))[::options.every]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = f"{folder}/tokenizer.json"
        subprocess.run([options.probe, options.model, "--tokenizer", tokenizer], check=True)
        peer = Peer(tokenizer)
        own = ours(options.probe, options.model, paths)
        theirs = {path: peer.measure(path) for path in paths}
    print("| engine | compiled | valid refused | invalid taken | compile, median µs | p99 | mask, median µs | p99 | masks |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(row("ingot", own, len(paths)))
    print(row(f"llguidance {llguidance.__version__}", theirs, len(paths)))
    compiled = [p for p in paths if "error" not in theirs[p]]
    both = [p for p in compiled if "error" not in own[p]]
    print(f"\nOf the {len(compiled)} schemas that llguidance compiles, {len(both)} compile: {100 * len(both) / max(1, len(compiled)):.1f} %.")
    missing = collections.Counter(reason(own[p]["error"]) for p in compiled if "error" in own[p])
    for why, count in missing.most_common(15):
        print(f"- {count}: {why}")
    if options.list:
        with options.list.open("w") as to:
            for p in paths:
                brief = {k: {key: r[p].get(key) for key in ("error", "wrong")} for k, r in (("ingot", own), ("llguidance", theirs))}
                if brief["ingot"] != brief["llguidance"]:
                    to.write(json.dumps({"file": p.name, **brief}) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Reads a run that report_to: [wandb] wrote with the wandb package itself, and compares it with metrics.jsonl.

Needs the PyPI package `wandb`; for checking train/reporters/wandb.cpp by hand after a change.
"""
import argparse
import json
import pathlib
import struct
import sys
import zlib

from wandb.proto import wandb_internal_pb2

BLOCK, HEADER = 32768, 7


def records(data):
    assert struct.unpack("<4sHB", data[:HEADER]) == (b":W&B", 0xBEE1, 0), "header"
    at, whole = HEADER, b""
    while at < len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        crc, size, kind = struct.unpack("<IHB", data[at:at + HEADER])
        part = data[at + HEADER:at + HEADER + size]
        assert zlib.crc32(bytes([kind]) + part) == crc, f"CRC at {at}"
        at += HEADER + size
        whole += part
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output_dir", type=pathlib.Path)
    output = parser.parse_args().output_dir
    (path,) = output.glob("wandb/offline-run-*/run-*.wandb")
    found = list(records(path.read_bytes()))
    history = [{item.nested_key[0]: json.loads(item.value_json) for item in r.history.item}
               for r in found if r.HasField("history")]
    (run,) = [r.run for r in found if r.HasField("run")]
    print(f"{run.project}/{run.display_name} ({run.run_id}), {len(run.config.update)} settings, {len(history)} steps")
    losses = {h["_step"]: h["train/loss"] for h in history if "train/loss" in h}
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    expected = {line["step"]: line["loss"] for line in lines if line["type"] == "train"}
    if losses != expected or not any(r.HasField("exit") for r in found):
        print("not as metrics.jsonl has it")
        return 1
    print("as metrics.jsonl has it")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares `ingot plan --gpu cpu` with runs of 2 and 4 ranks on this machine: memory per rank and seconds of a step.

    tools/bench/plan_ranks.py build/bin/ingot --bandwidth GB/s --flops TFLOP/s [--steps 8]

`--flops` is what `ingot bench matmul` measures with all threads, `--bandwidth` what memory gives them. Memory is the largest resident set
of a rank that does not write (it has no report to keep), less that of the same run with next to no model. Seconds are the least of the
steps, which other work on the machine disturbs least. Prints a table of planned and measured.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGE = {"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8}
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
BATCH, SEQUENCE = 4, 64


def write_config(folder, architecture, stage, steps):
    config = {
        "from_scratch": True, "architecture": {"model_type": "llama", **architecture}, "vocab_size": 280,
        "datasets": [{"path": str(ROOT / "examples/data/text.txt")}], "output_dir": str(folder / "out"),
        "sequence_len": SEQUENCE, "per_device_train_batch_size": BATCH, "max_steps": steps, "eval_steps": 0,
        "save_steps": 0, "eval_batches": 1, "zero_stage": stage, "bucket_cap_mb": 8, "report_to": ["jsonl"], "device": "cpu",
    }
    path = folder / "train.yaml"
    path.write_text(json.dumps(config))
    return path


def measure(ingot, architecture, stage, ranks, steps):
    """(MiB of the largest rank that does not write, least seconds of a step)"""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = write_config(folder, architecture, stage, steps)
        log = folder / "rank"
        # each rank writes its resident set, in KiB, to a file of its own
        inner = f'exec /usr/bin/time -f %M -o {log}$OMPI_COMM_WORLD_RANK {ingot} train {config}'
        subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), "sh", "-c", inner],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=280)
        memory = max(int((folder / f"rank{rank}").read_text().split()[-1]) for rank in range(1, ranks)) / 1024
        lines = [json.loads(line) for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
        seconds = min(line["seconds"] for line in lines if line["type"] == "train")
    return memory, seconds


def planned(ingot, stage, ranks, bandwidth, flops):
    with tempfile.TemporaryDirectory() as name:
        config = write_config(pathlib.Path(name), LARGE, stage, 8)
        output = subprocess.run([ingot, "plan", config, "--gpu", "cpu", "--gpus", str(ranks), "--bandwidth", str(bandwidth), "--flops",
                                 str(flops), "--batch", str(BATCH), "--json"], check=True, capture_output=True, text=True).stdout
    for run in json.loads(output)["combinations"]:
        if run["zero_stage"] == stage and run["recompute"] in ("none", "false"):
            return sum(run["memory"].values()) / 2**20, run["seconds"]["step"]
    sys.exit(f"no plan has ZeRO {stage} without recomputation")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot", type=pathlib.Path)
    parser.add_argument("--bandwidth", type=float, required=True)
    parser.add_argument("--flops", type=float, required=True)
    parser.add_argument("--steps", type=int, default=8)
    o = parser.parse_args()
    ingot = o.ingot.resolve()
    print("| ranks | ZeRO | memory planned, measured (MiB) | ratio | step planned, measured (s) | ratio |\n|---|---|---|---|---|---|")
    for ranks in (2, 4):
        empty, _ = measure(ingot, TINY, 0, ranks, 2)
        for stage in (0, 1, 2, 3):
            memory, seconds = measure(ingot, LARGE, stage, ranks, o.steps)
            memory -= empty
            plan_memory, plan_seconds = planned(ingot, stage, ranks, o.bandwidth, o.flops)
            print(f"| {ranks} | {stage} | {plan_memory:.0f}, {memory:.0f} | {plan_memory / memory:.2f} | "
                  f"{plan_seconds:.3f}, {seconds:.3f} | {plan_seconds / seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()

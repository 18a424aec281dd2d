#!/usr/bin/env python3
"""Times whole epochs of the published DLinear program beside ours: loading, batches, forward, backward, Adam.

  tools/bench/ltsf_epoch.py --ltsf LTSF-Linear ETTh1.csv

The published program (LTSF-Linear 0c11366) runs unchanged, with the settings of its script for ETTh1 (look-back 336,
horizon 96, batch 32) and PyTorch on the CPU; the seconds are those that it prints for an epoch, without its validation.
Its default is ten loading processes, which it starts anew each epoch; --workers names other numbers to try (0 loads in
the training process). Ours are those that `ingot forecast fit` reports: training and validation. The first epoch of each
is left out. Both have the threads that OMP_NUM_THREADS says. The program wants matplotlib, pandas and scikit-learn.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile


def published(args, workers, folder):
    program = args.ltsf.resolve() / "run_longExp.py"
    # It was written for NumPy 1, which had this name.
    start = f"import sys, runpy, numpy; numpy.Inf = numpy.inf; sys.path.insert(0, {str(program.parent)!r}); " \
            f"sys.argv[0] = {str(program)!r}; runpy.run_path({str(program)!r}, run_name='__main__')"
    command = [sys.executable, "-u", "-c", start, "--is_training", "1", "--root_path",
               str(args.data.resolve().parent), "--data_path", args.data.name, "--model_id", "epoch", "--model", args.model,
               "--data", "ETTh1", "--features", "M", "--seq_len", "336", "--pred_len", "96", "--enc_in", "7", "--itr", "1",
               "--batch_size", "32", "--learning_rate", "0.005", "--patience", "100", "--num_workers", str(workers),
               "--train_epochs", str(args.epochs + 1)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    seconds = [float(s) for s in re.findall(r"cost time: ([\d.]+)", done.stdout)]
    if len(seconds) <= args.epochs:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    return seconds[1:]


def ours(args, folder):
    done = subprocess.run([str(args.ingot.resolve()), "forecast", "fit", str(args.data.resolve()), "--model",
                           args.model.lower(), "--split", "ett", "--horizon", "96", "--epochs", str(args.epochs + 1), "--set",
                           "patience=0", "-o", "model", "--json"], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [epoch["seconds"] for epoch in json.loads(done.stdout)["epochs"]][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--ltsf", type=pathlib.Path, required=True)
    parser.add_argument("--ingot", type=pathlib.Path, default=pathlib.Path("build/bin/ingot"))
    parser.add_argument("--model", choices=("DLinear", "NLinear"), default="DLinear")
    parser.add_argument("--workers", default="10,0", help="loading processes of the published program")
    parser.add_argument("--epochs", type=int, default=3, help="counted ones")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mine = statistics.median(ours(args, folder))
        print(f"{args.model} epoch with validation, Ingot: {mine:.3f} s", flush=True)
        for workers in map(int, args.workers.split(",")):
            theirs = statistics.median(published(args, workers, folder))
            print(f"{args.model} epoch, published program, {workers} loading processes: {theirs:.3f} s, {theirs / mine:.1f} times "
                  "as long", flush=True)
        print(f"Ingot again: {statistics.median(ours(args, folder)):.3f} s")


if __name__ == "__main__":
    main()

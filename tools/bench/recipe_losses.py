#!/usr/bin/env python3
"""Compares the validation losses of training recipes on the demo's model and data: recipe beside bf16, seed by seed.

    python3 tools/bench/recipe_losses.py --steps 2000 --seeds 1,2,3 [--record epyc-zen4]

Every run is `ingot train` on the demo's architecture (3 million parameters) and its data, the repository's sources and
guides. --record adds the results to bench/results/MACHINE/DATE.json.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import results  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = """\
from_scratch: true
architecture: {{model_type: llama, hidden_size: 192, intermediate_size: 512, num_hidden_layers: 6,
  num_attention_heads: 6, num_key_value_heads: 2, max_position_embeddings: 1024, tie_word_embeddings: true}}
vocab_size: 2048
datasets: [{{path: {root}/docs}}, {{path: {root}/src}}]
cache_dir: {cache}
validation_split_ratio: 0.05
output_dir: {output}
sequence_len: 256
per_device_train_batch_size: {batch}
max_steps: {steps}
learning_rate: 3e-3
adamw_beta2: 0.95
warmup_ratio: 0.05
final_lr_fraction: 0.05
eval_steps: 0
eval_batches: 16
save_steps: 0
report_to: [jsonl]
train_seed: {seed}
recipe: {recipe}
"""


def validation_loss(arguments, folder, recipe, seed):
    output = folder / f"{recipe}-{seed}"
    config = folder / f"{recipe}-{seed}.yaml"
    config.write_text(CONFIG.format(root=ROOT, cache=folder / "cache", output=output, batch=arguments.batch,
                                    steps=arguments.steps, seed=seed, recipe=recipe))
    subprocess.run([arguments.ingot, "train", str(config)], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line["eval_loss"] for line in lines if "eval_loss" in line][-1]


def record(arguments, losses):
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    seeds = len(losses["bf16"])
    runs = [{"group": "Training recipes, the demo's model and data", "work": f"{recipe}, validation loss",
             "command": f"python3 tools/bench/recipe_losses.py --steps {arguments.steps} --seeds {arguments.seeds} "
                        f"--batch {arguments.batch}",
             "commit": commit.stdout.strip(), "unit": "nats/token", "better": "lower",
             "median": round(statistics.median(values), 4), "spread": [round(min(values), 4), round(max(values), 4)],
             "peer": {"name": "recipe bf16", "version": "Ingot", "median": round(statistics.median(losses["bf16"]), 4)},
             "note": f"{arguments.steps} steps of {arguments.batch} × 256 tokens, {seeds} seed{'s' if seeds > 1 else ''}"}
            for recipe, values in losses.items() if recipe != "bf16"]
    results.append(results.ROOT / arguments.record / f"{datetime.date.today().isoformat()}.json", runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ingot", default=str(ROOT / "build" / "bin" / "ingot"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=8, help="sequences of 256 tokens")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--recipes", default="fp8_hybrid,nvfp4,bitnet", help="beside bf16, which always runs")
    parser.add_argument("--record", metavar="MACHINE")
    arguments = parser.parse_args()
    recipes = ["bf16", *(name for name in arguments.recipes.split(",") if name)]
    losses = {recipe: [] for recipe in recipes}
    with tempfile.TemporaryDirectory() as folder:
        for seed in arguments.seeds.split(","):
            for recipe in recipes:
                loss = validation_loss(arguments, pathlib.Path(folder), recipe, seed)
                losses[recipe].append(loss)
                print(f"seed {seed}  {recipe:<10}  {loss:.4f}  {loss / losses['bf16'][-1] - 1:+.2%} of bf16", flush=True)
    for recipe, values in losses.items():
        beside = statistics.mean(a / b - 1 for a, b in zip(values, losses["bf16"]))
        print(f"mean    {recipe:<10}  {statistics.mean(values):.4f}  {beside:+.2%} of bf16")
    if arguments.record:
        record(arguments, losses)


if __name__ == "__main__":
    main()

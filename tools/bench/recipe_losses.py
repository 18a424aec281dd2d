#!/usr/bin/env python3
"""Compares the validation losses of training recipes on the demo's model and data: recipe beside bf16, seed by seed.

    python3 tools/bench/recipe_losses.py --steps 2000 --seeds 1,2,3 [--folder runs] [--record epyc-zen4]

Every run is `ingot train` on the demo's architecture (3 million parameters) and its data, the repository's sources and
guides. --folder keeps the runs: what has ended is read again, what was killed is resumed. --record adds the results to
bench/results/MACHINE/DATE.json, with the curves.
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
# The least loss of bf16 over a recipe's: 0.5 % and 3.5 % more at most.
GOALS = {"fp8_hybrid": 1 / 1.005, "nvfp4": 1 / 1.035}
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
eval_steps: {eval_steps}
eval_batches: 32
save_steps: {eval_steps}
save_total_limit: 1
report_to: [jsonl]
train_seed: {seed}
recipe: {recipe}
"""


def validation_curve(arguments, folder, recipe, seed):
    """{step: validation loss} of one run."""
    output = folder / f"{recipe}-{seed}"
    config = folder / f"{recipe}-{seed}.yaml"
    config.write_text(CONFIG.format(root=ROOT, cache=folder / "cache", output=output, batch=arguments.batch,
                                    steps=arguments.steps, eval_steps=max(arguments.steps // 8, 1), seed=seed, recipe=recipe))
    if arguments.steps not in read_curve(output):
        resume = ["--resume"] if any(output.glob("checkpoint*")) else []
        subprocess.run([arguments.ingot, "train", str(config), *resume], check=True, stdout=subprocess.DEVNULL)
    return read_curve(output)


def read_curve(output):
    metrics = output / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    return {line["step"]: line["eval_loss"] for line in lines if "eval_loss" in line}


def record(arguments, curves):
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    seeds = len(curves["bf16"])
    runs = []
    for recipe in [name for name in curves if name != "bf16"]:
        losses, bf16 = last_losses(curves[recipe]), last_losses(curves["bf16"])
        ratios = [theirs / ours for ours, theirs in zip(losses, bf16)]
        runs.append({"group": "Training recipes, the demo's model and data", "work": f"{recipe}, validation loss",
                     "command": f"python3 tools/bench/recipe_losses.py --steps {arguments.steps} --seeds {arguments.seeds} "
                                f"--batch {arguments.batch}",
                     "commit": commit.stdout.strip(), "unit": "nats/token", "better": "lower",
                     "median": round(statistics.median(losses), 4), "spread": [round(min(losses), 4), round(max(losses), 4)],
                     "peer": {"name": "recipe bf16", "version": "Ingot", "median": round(statistics.median(bf16), 4)},
                     "ratio": round(statistics.mean(ratios), 4), **({"goal": round(GOALS[recipe], 4)} if recipe in GOALS else {}),
                     "note": f"{arguments.steps} steps of {arguments.batch} × 256 tokens, {seeds} seed{'s' if seeds > 1 else ''}; "
                             f"mean over seeds at steps {curve_text(curves[recipe], curves['bf16'])}"})
    results.append(results.ROOT / arguments.record / f"{datetime.date.today().isoformat()}.json", runs)


def last_losses(curves):
    return [curve[max(curve)] for curve in curves]


def curve_text(curves, bf16):
    """250: +0.12 %, 500: ...: the mean distance from bf16 at each step that was looked at."""
    steps = sorted(set.intersection(*(set(curve) for curve in [*curves, *bf16])))
    distance = {step: statistics.mean(a[step] / b[step] - 1 for a, b in zip(curves, bf16)) for step in steps}
    return ", ".join(f"{step}: {100 * value:+.2f} %" for step, value in distance.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ingot", default=str(ROOT / "build" / "bin" / "ingot"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=8, help="sequences of 256 tokens")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--recipes", default="fp8_hybrid,nvfp4,bitnet", help="beside bf16, which always runs")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the runs, so that a second call goes on where the first ended")
    parser.add_argument("--record", metavar="MACHINE")
    arguments = parser.parse_args()
    recipes = ["bf16", *(name for name in arguments.recipes.split(",") if name)]
    curves = {recipe: [] for recipe in recipes}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in arguments.seeds.split(","):
            for recipe in recipes:
                curves[recipe].append(validation_curve(arguments, folder, recipe, seed))
                loss, bf16 = last_losses(curves[recipe])[-1], last_losses(curves["bf16"])[-1]
                print(f"seed {seed}  {recipe:<10}  {loss:.4f}  {loss / bf16 - 1:+.2%} of bf16", flush=True)
    for recipe in recipes:
        print(f"{recipe:<10}  mean {statistics.mean(last_losses(curves[recipe])):.4f}, beside bf16 at steps "
              f"{curve_text(curves[recipe], curves['bf16'])}")
    if arguments.record:
        record(arguments, curves)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times the PyPI packages `mahjong` and `riichienv` and, in turn with them, build/bench/mahjong_bench (which
`./dev bench copy_table` builds) on one core, medians: pip install mahjong riichienv, then run this. riichienv's engine is
Rust and is reached through its Python API, which is the only one its wheel has."""
import json
import pathlib
import random
import statistics
import subprocess
import time


def median(work, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        count = work()
        times.append((time.perf_counter() - start) / count)
    return statistics.median(times)


def ours(pattern):
    """Median nanoseconds of the one benchmark that the pattern names."""
    binary = pathlib.Path(__file__).parents[2] / "build/bench/mahjong_bench"
    out = subprocess.run([binary, f"--benchmark_filter={pattern}", "--benchmark_format=json",
                          "--benchmark_repetitions=3", "--benchmark_min_time=0.1"],
                         check=True, capture_output=True, text=True).stdout
    unit = {"ns": 1.0, "us": 1e3, "ms": 1e6}
    rows = [r for r in json.loads(out)["benchmarks"] if r.get("aggregate_name") == "median"]
    return rows[0]["real_time"] * unit[rows[0]["time_unit"]]


def show(what, pattern, peers):
    mine = ours(pattern)
    for name, seconds in peers.items():
        print(f"{what}: ingot {mine:,.0f} ns, {name} {seconds * 1e9:,.0f} ns, {seconds * 1e9 / mine:,.1f} times as long")


def random_hanchan(games=3):
    from riichienv import GameRule, RiichiEnv

    for seed in range(games):
        rnd = random.Random(seed)
        env = RiichiEnv(game_mode="4p-red-half", rule=GameRule.default_tenhou(), seed=seed)
        observations = env.reset()
        while not env.done():
            observations = env.step({p: rnd.choice(o.legal_actions()) for p, o in observations.items()})
    return games


def hands(count, size):
    rnd = random.Random(1)
    return [rnd.sample(range(136), size) for _ in range(count)]


def main():
    from mahjong.hand_calculating.hand import HandCalculator
    from mahjong.hand_calculating.hand_config import HandConfig
    from mahjong.shanten import Shanten
    from mahjong.tile import TilesConverter
    from riichienv import GameRule, HandEvaluator, RiichiEnv, calculate_shanten

    show("random hanchan", "random_hanchan/checked:0$", {"riichienv": median(random_hanchan, 3)})

    env = RiichiEnv(game_mode="4p-red-half", rule=GameRule.default_tenhou(), seed=1)
    observation = next(iter(env.reset().values()))

    def encode():
        for _ in range(2000):
            observation.encode()
        return 2000

    show("full encoding (riichienv 74 x 34)", "encode_full", {"riichienv": median(encode)})
    dealt = hands(2000, 14)

    def shanten_rust():
        for hand in dealt:
            calculate_shanten(hand)
        return len(dealt)

    counts = [TilesConverter.to_34_array(hand) for hand in dealt]

    def shanten_python():
        for count in counts[:300]:
            Shanten().calculate_shanten(count)
        return 300

    show("shanten", "shanten_of_random_hands/tiles:14",
         {"riichienv": median(shanten_rust), "mahjong": median(shanten_python)})
    tiles = TilesConverter.string_to_136_array(man="234678", pin="345", sou="66777")
    win = tiles[-1]

    def score_python():
        for _ in range(200):
            HandCalculator.estimate_hand_value(tiles, win, config=HandConfig(is_riichi=True))
        return 200

    def score_rust():
        for _ in range(2000):
            HandEvaluator(sorted(tiles)[:13]).calc(win)
        return 2000

    show("score", "^score$", {"riichienv": median(score_rust), "mahjong": median(score_python)})


if __name__ == "__main__":
    main()

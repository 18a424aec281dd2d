#!/usr/bin/env python3
"""Times the PyPI packages `mahjong` and `riichienv` on the work of bench/mahjong_bench.cpp, one core, medians of
five: pip install mahjong riichienv, then run it beside build/bench/mahjong_bench. riichienv's engine is Rust and is
reached through its Python API, which is the only one its wheel has."""
import random
import statistics
import time


def median(work, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        count = work()
        times.append((time.perf_counter() - start) / count)
    return statistics.median(times)


def random_hanchan(games=5):
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

    print(f"riichienv random hanchan: {1 / median(random_hanchan):.1f} per second")

    env = RiichiEnv(game_mode="4p-red-half", rule=GameRule.default_tenhou(), seed=1)
    observation = next(iter(env.reset().values()))

    def encode():
        for _ in range(2000):
            observation.encode()
        return 2000

    print(f"riichienv encode 74x34: {median(encode) * 1e9:.0f} ns")
    dealt = hands(2000, 14)

    def shanten_rust():
        for hand in dealt:
            calculate_shanten(hand)
        return len(dealt)

    print(f"riichienv shanten: {median(shanten_rust) * 1e9:.0f} ns")
    counts = [TilesConverter.to_34_array(hand) for hand in dealt]

    def shanten_python():
        for count in counts[:300]:
            Shanten().calculate_shanten(count)
        return 300

    print(f"mahjong shanten: {median(shanten_python) * 1e9:.0f} ns")
    tiles = TilesConverter.string_to_136_array(man="234678", pin="345", sou="66777")
    win = tiles[-1]

    def score_python():
        for _ in range(200):
            HandCalculator.estimate_hand_value(tiles, win, config=HandConfig(is_riichi=True))
        return 200

    print(f"mahjong score: {median(score_python) * 1e9:.0f} ns")

    def score_rust():
        for _ in range(2000):
            HandEvaluator(sorted(tiles)[:13]).calc(win)
        return 2000

    try:
        print(f"riichienv score: {median(score_rust) * 1e9:.0f} ns")
    except Exception as error:  # its API moves between versions
        print(f"riichienv score: not timed ({error})")


if __name__ == "__main__":
    main()

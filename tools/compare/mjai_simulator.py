#!/usr/bin/env python3
"""Plays games of `ingot mahjong play --mjai` in the simulator of the package mjai, whose engine is Mortal's.

    tools/compare/mjai_simulator.py build/bin/ingot --player model:bc/model [--games 8] [--json]     # pip install mjai==0.2.1

Each seat is a process with one thread. It is told what the simulator tells the container of a submission, line by line, and its answers go
back as they are. Prints mean places, and how long answers take: from a line sent to the answer read. An answer that the engine refuses
ends the game, is printed, and makes the exit code 1. --record MACHINE adds the times to bench/results.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from mjai.engine import DockerMjaiLogEngine
from mjai.mlibriichi.arena import Match

SEATS = range(4)


class Seat:
    """What runs in a submission's container: lines in, answers out."""

    def __init__(self, command, number):
        self.number, self.seconds = number, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"})

    def react(self, events):
        kind = json.loads(events)[-1]["type"]
        if kind == "start_game":  # the engine has one game, and names that instead of the seat
            events = json.dumps([{"type": "start_game", "id": self.number}])
        start = time.perf_counter()
        self.process.stdin.write(events + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"seat {self.number} ended with {self.process.wait()}; it was told {events}")
        if kind not in ("start_game", "end_kyoku", "end_game"):
            self.seconds.append(time.perf_counter() - start)
        return answer.strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def play(args, number, log_dir):
    """(places by seat or None, seconds of the first seat's answers, what went wrong)."""
    players = [args.player] + [args.opponent] * 3
    order = [(seat - number) % 4 for seat in SEATS]  # who sits where
    seats = [Seat([args.ingot, "mahjong", "play", "--mjai", "--player", players[who], "--seed", str(number)], seat)
             for seat, who in enumerate(order)]
    own = seats[order.index(0)]
    try:
        # Before a seat is asked, the engine may end a round: DockerMjaiLogEngine tells it so.
        Match(log_dir=log_dir).py_match(*[DockerMjaiLogEngine(name=str(seat.number), player=seat) for seat in seats],
                                        seed_start=(args.seed + number, 2000))
    except Exception as error:  # of Rust and of Python
        return own.seconds, f"game {number}: {type(error).__name__}: {error}"
    finally:
        for seat in seats:
            seat.close()
    return own.seconds, None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ingot")
    parser.add_argument("--player", default="rule-based", help="in one seat, another one each game")
    parser.add_argument("--opponent", default="simple", help="in the three others")
    parser.add_argument("--games", type=int, default=4)
    parser.add_argument("--seed", type=int, default=10000)
    parser.add_argument("--logs", help="directory for the games as mjai")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", metavar="MACHINE")
    parser.add_argument("--note", default="", help="of what is recorded")
    args = parser.parse_args()
    seconds, wrong = [], []
    for number in range(args.games):
        taken, error = play(args, number, args.logs)
        seconds += taken
        wrong += [error] if error else []
    times = [1e3 * one for one in sorted(seconds)] or [0.0]
    report = {"games": args.games, "refused": wrong, "answers": len(seconds), "median_ms": round(statistics.median(times), 3),
              "p99_ms": round(times[int(0.99 * (len(times) - 1))], 3), "longest_ms": round(times[-1], 3)}
    print(json.dumps(report) if args.json else "\n".join(f"{key}: {value}" for key, value in report.items()))
    if args.record:
        sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))
        import results
        results.append(results.ROOT / args.record / f"{datetime.date.today()}.json", [{
            "group": "Self-play in mahjong", "work": f"an answer over mjai in the simulator of the package mjai, {args.player}",
            "command": "tools/compare/mjai_simulator.py " + " ".join(sys.argv[1:]), "unit": "ms", "better": "lower",
            "median": report["median_ms"], "spread": [round(times[0], 3), report["longest_ms"]],
            "note": f"{len(seconds)} answers, one thread; 99 % below {report['p99_ms']} ms. {args.note}".strip()}])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

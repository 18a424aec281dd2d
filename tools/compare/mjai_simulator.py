#!/usr/bin/env python3
"""Plays games of `ingot mahjong play --mjai` in the simulator of the package mjai, whose engine is Mortal's.

    tools/compare/mjai_simulator.py build/bin/ingot --player model:bc/model [--games 8] [--json]     # pip install mjai==0.2.1

Each seat is a process with one thread. It is told what the simulator tells the container of a submission, line by line, and its answers go
back as they are. Prints how long answers take: from a line sent to the answer read, and in processor time, which other programs do not
lengthen. An answer that the engine refuses ends the game, is printed, and makes the exit code 1. --record MACHINE adds the processor
times to bench/results.
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
        self.number, self.seconds, self.processor = number, [], []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"})

    def processor_seconds(self):
        """Of the one thread, since it began."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) * 1e-9

    def react(self, events):
        kind = json.loads(events)[-1]["type"]
        if kind == "start_game":  # the engine has one game, and names that instead of the seat
            events = json.dumps([{"type": "start_game", "id": self.number}])
        start, used = time.perf_counter(), self.processor_seconds()
        self.process.stdin.write(events + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"seat {self.number} ended with {self.process.wait()}; it was told {events}")
        if kind not in ("start_game", "end_kyoku", "end_game"):
            self.seconds.append(time.perf_counter() - start)
            self.processor.append(self.processor_seconds() - used)
        return answer.strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def play(args, number, log_dir):
    """(the first player's seat, what went wrong or None)."""
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
        return own, f"game {number}: {type(error).__name__}: {error}"
    finally:
        for seat in seats:
            seat.close()
    return own, None


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
    parser.add_argument("--label", help="what to call the player in what is recorded")
    parser.add_argument("--note", default="", help="of what is recorded")
    args = parser.parse_args()
    seconds, processor, wrong = [], [], []
    for number in range(args.games):
        seat, error = play(args, number, args.logs)
        seconds += seat.seconds
        processor += seat.processor
        wrong += [error] if error else []
    report = {"games": args.games, "refused": wrong, "answers": len(seconds)}
    for name, values in (("", seconds), ("processor_", processor)):
        times = [1e3 * one for one in sorted(values)] or [0.0]
        report |= {f"{name}median_ms": round(statistics.median(times), 3), f"{name}p99_ms": round(times[int(0.99 * (len(times) - 1))], 3),
                   f"{name}least_ms": round(times[0], 3), f"{name}longest_ms": round(times[-1], 3)}
    print(json.dumps(report) if args.json else "\n".join(f"{key}: {value}" for key, value in report.items()))
    if args.record:
        sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))
        import results
        results.append(results.ROOT / args.record / f"{datetime.date.today()}.json", [{
            "group": "Self-play in mahjong", "work": f"an answer over mjai in the simulator of the package mjai, {args.label or args.player}",
            "command": f"tools/compare/mjai_simulator.py ingot --player {args.label or args.player} --games {args.games}", "unit": "ms", "better": "lower",
            "median": report["processor_median_ms"], "spread": [report["processor_least_ms"], report["processor_longest_ms"]],
            "note": "; ".join(["processor time of one thread", f"{len(seconds)} answers, 99 % below {report['processor_p99_ms']} ms",
                               *([args.note] if args.note else [])])}])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes tests/mahjong/goldens/openskill.txt: pip install openskill==6.2.0.

Games of two to five of eight players, in turn, ties among them, rated by openskill's Plackett-Luce model. A line is one
game: how many players, then of each its number and rank, and what it is rated after the game (mu, sigma). Half of the
games are played under other settings than openskill's own; those lines begin with "wide".
"""
import pathlib
import random

from openskill.models import PlackettLuce

GAMES, PLAYERS = 60, 8


def main():
    rnd = random.Random(42)
    lines = []
    for name, model in [("default", PlackettLuce()), ("wide", PlackettLuce(beta=2.0, tau=0.5, kappa=0.3))]:
        known = [model.rating() for _ in range(PLAYERS)]
        for _ in range(GAMES // 2):
            at_table = rnd.sample(range(PLAYERS), rnd.randint(2, 5))
            ranks = [float(rnd.randint(0, len(at_table) - 1)) for _ in at_table]
            if rnd.random() < 0.5:
                ranks = [float(r) for r in rnd.sample(range(len(at_table)), len(at_table))]
            rated = model.rate([[known[p]] for p in at_table], ranks=ranks)
            fields = [name, str(len(at_table))]
            for player, rank, (rating,) in zip(at_table, ranks, rated):
                known[player] = rating
                fields += [str(player), repr(rank), repr(rating.mu), repr(rating.sigma)]
            lines.append(" ".join(fields))
    out = pathlib.Path(__file__).resolve().parents[2] / "tests/mahjong/goldens/openskill.txt"
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes what tests/mahjong/peers_test.cpp compares with: pip install mahjong==2.1.0 riichienv==0.4.11.

mahjong_peers.py legal OUT --games 8 --mode 4p-red-single    riichienv: random games as mjai lines, and before each
    decision a line {"type":"legal","player":p,"mask":hex} with the 46 policy actions it holds legal.
mahjong_peers.py score OUT --hands 300                       mahjong: random complete hands with han, fu and points,
    and random hands with their shanten. Tenhou rules.
"""
import argparse
import json
import random


def legal(args):
    from riichienv import RiichiEnv, GameRule

    with open(args.out, "w") as out:
        for seed in range(args.seed, args.seed + args.games):
            rnd = random.Random(seed)
            env = RiichiEnv(game_mode=args.mode, rule=GameRule.default_tenhou(), seed=seed)
            observations, told = env.reset(), 0
            while True:
                log = env.mjai_log
                for event in log[told:]:
                    out.write(json.dumps(event, separators=(",", ":")) + "\n")
                told = len(log)
                if env.done():
                    break
                actions = {}
                for player, observation in sorted(observations.items()):
                    choices = observation.legal_actions()
                    mask = 0
                    for action in choices:
                        number = action.encode()
                        if number < 37:  # its encoding does not tell red fives
                            number = {16: 34, 52: 35, 88: 36}.get(action.tile, action.tile // 4)
                        elif 42 <= number <= 78:
                            number = 42
                        elif number > 78:
                            number -= 36
                        mask |= 1 << number
                    out.write('{"type":"legal","player":%d,"mask":"%x"}\n' % (player, mask))
                    # Random, but towards tenpai, so that riichi, wins and furiten come up.
                    wins = [a for a in choices if a.encode() in (37, 79)]
                    passes = [a for a in choices if a.encode() == 81]
                    calls = rnd.random() < args.calls
                    if wins and rnd.random() < 0.8:
                        actions[player] = rnd.choice(wins)
                    elif passes and not calls:
                        actions[player] = passes[0]
                    else:
                        actions[player] = choose(rnd, observation, choices, args.clever)
                observations = env.step(actions)


def choose(rnd, observation, choices, clever):
    from mahjong.shanten import Shanten

    if rnd.random() > clever:
        return rnd.choice(choices)
    discards = [a for a in choices if a.encode() < 37]
    if not discards:
        return rnd.choice(choices)
    hand = [0] * 34
    for tile in observation.hand:
        hand[tile // 4] += 1
    best, found = 99, []
    for action in discards:
        hand[action.tile // 4] -= 1
        distance = Shanten().calculate_shanten(hand)
        hand[action.tile // 4] += 1
        if distance < best:
            best, found = distance, []
        if distance == best:
            found.append(action)
    return rnd.choice(found)


def random_hand(rnd):
    """A complete hand of four groups and a pair, often of one suit, with some groups called."""
    from mahjong.meld import Meld

    suits = rnd.choice([[0, 1, 2, 3], [0, 1, 2, 3], [0, 3], [1], [2, 3], [3, 0, 1, 2]])
    left = {k: [4 * k + c for c in range(4)] for k in range(34)}
    closed, melds = [], []
    for _ in range(4):
        while True:
            suit = rnd.choice(suits)
            if suit < 3 and rnd.random() < 0.6:
                low = 9 * suit + rnd.randrange(7)
                kinds = [low, low + 1, low + 2]
            else:
                kinds = [rnd.randrange(27, 34) if suit == 3 else 9 * suit + rnd.randrange(9)] * 3
            if all(len(left[k]) >= kinds.count(k) for k in kinds):
                break
        tiles = [left[k].pop() for k in kinds]
        triplet = kinds[0] == kinds[1]
        if rnd.random() < 0.25:
            kan = triplet and left[kinds[0]] and rnd.random() < 0.3
            if kan:
                tiles.append(left[kinds[0]].pop())
            meld = Meld.KAN if kan else Meld.PON if triplet else Meld.CHI
            melds.append(Meld(meld, tiles=sorted(tiles), opened=not (kan and rnd.random() < 0.5)))
        else:
            closed += tiles
    pairs = [k for k in left if len(left[k]) >= 2 and (k >= 27 and 3 in suits or k < 27 and k // 9 in suits)]
    if not pairs:
        return random_hand(rnd)
    pair = rnd.choice(pairs)
    closed += [left[pair].pop(), left[pair].pop()]
    return closed, melds, [t for k in left for t in left[k]]


def score(args):
    from mahjong.hand_calculating.hand import HandCalculator
    from mahjong.hand_calculating.hand_config import HandConfig, OptionalRules
    from mahjong.shanten import Shanten

    rnd = random.Random(args.seed)
    wins, shanten = [], []
    rules = dict(has_open_tanyao=True, has_aka_dora=True, has_double_yakuman=False)
    while len(wins) < args.hands:
        closed, melds, rest = random_hand(rnd)
        win = rnd.choice(closed)
        open_hand = any(m.opened for m in melds)
        tsumo, riichi = rnd.random() < 0.5, not open_hand and rnd.random() < 0.4
        seat, prevalent = rnd.randrange(4), rnd.randrange(2)
        dora = [rnd.choice(rest) for _ in range(rnd.randrange(1, 3))]
        config = HandConfig(is_tsumo=tsumo, is_riichi=riichi, player_wind=27 + seat, round_wind=27 + prevalent,
                            options=OptionalRules(**rules))
        tiles = closed + [t for m in melds for t in m.tiles]
        result = HandCalculator.estimate_hand_value(tiles, win, melds=melds, dora_indicators=dora, config=config)
        if result.error not in (None, "no_yaku"):
            continue
        wins.append([sorted(closed), [[m.type, sorted(m.tiles), m.opened] for m in melds], win, dora,
                     [int(tsumo), int(riichi), seat, prevalent],
                     None if result.error else [result.han, result.fu, result.cost["main"], result.cost["additional"]]])
    for _ in range(args.hands):
        size = rnd.choice([13, 14, 10, 11, 7, 8, 4, 5])
        counts = [0] * 34
        tiles = rnd.choice([range(136), range(36), range(72, 136)])
        for tile in rnd.sample(list(tiles), size):
            counts[tile // 4] += 1
        shanten.append(["".join(map(str, counts)), Shanten().calculate_shanten(counts)])
    with open(args.out, "w") as out:
        json.dump({"wins": wins, "shanten": shanten}, out, separators=(",", ":"))
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["legal", "score"])
    parser.add_argument("out")
    parser.add_argument("--games", type=int, default=8)
    parser.add_argument("--hands", type=int, default=300)
    parser.add_argument("--mode", default="4p-red-single")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=float, default=0.4)
    parser.add_argument("--clever", type=float, default=0.8)
    args = parser.parse_args()
    {"legal": legal, "score": score}[args.what](args)


if __name__ == "__main__":
    main()

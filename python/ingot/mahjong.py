"""Riichi mahjong: tables, the worth of hands, contests between players, logs. Tiles are written as ``"123m055p11z"`` (0: a red
five; z: 1-4 = E S W N, 5-7 = haku hatsu chun).

>>> ingot.mahjong.score("234m055p678s345s11z", win="2m", riichi=True).ron
>>> ingot.mahjong.arena(["rule-based", "tsumogiri"], walls=25).entrants[0]["place"]
>>> env = ingot.mahjong.vector_env(512)

The 46 actions are 0-33 discard a kind of tile, 34-36 a red five, 37 riichi, 38-40 chi, 41 pon, 42 kan, 43 win, 44 nine orphans,
45 pass; :data:`ACTIONS` names them.
"""

import json
from dataclasses import dataclass
from typing import Any

from . import _core, rl
from ._core import Tensor
from .display import Page, Report, table

#: The 46 actions by name: ``"discard 5mr"``, ``"riichi"``.
ACTIONS: list[str] = _core._mahjong_action_names()


class Table:
    """A game at one table of four, moved action by action.

    Args:
        rules: ``"tenhou"``, ``"majsoul"`` or ``"european"``.
        seed: decides every wall.
        length: ``"hanchan"``, ``"east"`` or ``"round"``.

    >>> table = ingot.mahjong.Table(seed=1)
    >>> while not table.over:
    ...     if table.round_over:
    ...         table.next_round()
    ...     for player in table.to_act:
    ...         table.act(player, table.legal(player)[0])
    """

    def __init__(self, rules: str = "tenhou", seed: int = 0, length: str = "hanchan"):
        self._table = _core._MahjongTable.open(rules, length, seed)

    def clone(self) -> "Table":
        """The same position on a table of its own."""
        copy = Table.__new__(Table)
        copy._table = self._table.clone()
        return copy

    @property
    def to_act(self) -> list[int]:
        """The seats that must act now; none where the round or the game is over."""
        return self._table.to_act

    @property
    def round_over(self) -> bool:
        """Whether :meth:`next_round` deals on."""
        return self._table.round_over

    @property
    def over(self) -> bool:
        """Whether the game is over."""
        return self._table.over

    @property
    def round(self) -> int:
        """0 is East 1, 4 South 1."""
        return self._table.round

    @property
    def dealer(self) -> int:
        """The dealer's seat."""
        return self._table.dealer

    @property
    def honba(self) -> int:
        """Counters on the table."""
        return self._table.honba

    @property
    def sticks(self) -> int:
        """Riichi sticks on the table."""
        return self._table.sticks

    @property
    def tiles_left(self) -> int:
        """Tiles that can still be drawn."""
        return self._table.tiles_left

    @property
    def scores(self) -> list[int]:
        """Points by seat."""
        return self._table.scores

    @property
    def places(self) -> list[int]:
        """Of the scores as they are, by seat: 0 is first."""
        return self._table.places

    @property
    def points(self) -> list[float]:
        """Of the scores as a game's result, uma and oka included, in units of 1000."""
        return self._table.points

    def hand(self, player: int) -> str:
        """A seat's concealed tiles. For people: what a player may know is :meth:`observe`."""
        return self._table.hand(player)

    def legal(self, player: int) -> list[int]:
        """The legal ones of the 46 actions; none where the seat is not to act."""
        return self._table.legal(player)

    def kans(self, player: int) -> list[int]:
        """The kinds of tile (0 to 33) that action 42 may mean."""
        return self._table.kans(player)

    def act(self, player: int, action: int, kan: int | None = None) -> None:
        """Takes an action, and all that follows until somebody must decide. ``kan``: which of :meth:`kans`; the lowest where
        it is not given. :class:`ingot.errors.IllegalAction` leaves the table as it was."""
        self._table.act(player, action, kan)

    def describe(self, player: int, action: int, kan: int | None = None) -> str:
        """What an action of a seat is, for people."""
        return self._table.describe(player, action, kan)

    def next_round(self) -> None:
        """Deals the next round, where one is over; :class:`ingot.errors.IllegalAction` elsewhere."""
        self._table.next_round()

    def observe(self, player: int, context: bool = True, outlook: bool = False) -> Tensor:
        """What a seat may see, for networks: float32 [96, 34], or [85, 34] without ``context``; with ``outlook`` 25 rows more:
        what each choice is worth, as the rule-based player judges."""
        return self._table.observe(player, context, outlook)

    def events(self, viewer: int | None = None) -> list[dict[str, Any]]:
        """What has happened, in mjai's form; of a ``viewer`` (0 to 3) without what it may not know."""
        return [json.loads(line) for line in self._table.mjai(-1 if viewer is None else viewer).splitlines()]

    def __repr__(self) -> str:
        wind = "ESWN"[self.round // 4 % 4]
        state = "over" if self.over else f"{wind}{self.round % 4 + 1}, honba {self.honba}, {self.tiles_left} tiles left"
        return f"Table({state}, scores={self.scores})"


@dataclass(frozen=True)
class Score:
    """What a hand is worth. ``win`` is False for one that is not complete or has no yaku. ``ron``: what the discarder pays;
    ``tsumo_from_non_dealer`` and ``tsumo_from_dealer``: what each of the others does. Without honba."""

    win: bool
    yaku: list[str]
    han: int
    fu: int
    yakuman: int
    ron: int
    tsumo_from_non_dealer: int
    tsumo_from_dealer: int


def score(
    hand: str,
    win: str,
    *,
    melds=(),
    dora: str = "",
    ura: str = "",
    seat_wind: int = 1,
    round_wind: int = 1,
    rules: str = "tenhou",
    tsumo: bool = False,
    riichi: bool = False,
    double_riichi: bool = False,
    ippatsu: bool = False,
    last_tile: bool = False,
    rinshan: bool = False,
    chankan: bool = False,
    first_turn: bool = False,
) -> Score:
    """Yaku, fu and points of a winning hand.

    ``hand``: concealed tiles with the winning one; ``melds``: called groups, ``["777z", "-1111m"]`` (a minus: a closed kan);
    ``dora`` and ``ura``: indicators; winds are 1 to 4, E S W N. :class:`ingot.errors.InvalidHand` for tiles that cannot be.
    """
    flags = [tsumo, riichi, double_riichi, ippatsu, last_tile, rinshan, chankan, first_turn]
    found = _core._mahjong_score(hand, win, list(melds), dora, ura, seat_wind, round_wind, rules, flags)
    return Score(**found)


def shanten(hand: str) -> dict[str, Any]:
    """How far 13 or 14 tiles (three fewer for each called group) are from tenpai: ``shanten`` (0: tenpai, -1: complete), the
    three forms apart, and ``accepts``: for each discard that keeps it (None with 13 tiles) the ``kinds`` that bring the hand
    nearer, and how many ``tiles`` of them there are."""
    return _core._mahjong_shanten(hand)


class ArenaReport(Report):
    """What :func:`arena` found, a dict that prints and shows as a table."""

    @property
    def entrants(self) -> list[dict[str, Any]]:
        """A dict for each name. ``place``, ``points``, ``score``, ``win``, ``deal_in``, ``call``, ``riichi``: (mean, half width of
        the 95 % interval); ``places``: shares of first to fourth."""
        return self["entrants"]

    @property
    def tests(self) -> list[dict[str, Any]]:
        """Of each pair: ``first``, ``second``, the ``place_difference`` and ``p``."""
        return self["tests"]

    def __repr__(self) -> str:
        return self["text"]

    def _repr_html_(self):
        shown = ("name", "games", "place", "points", "win", "deal_in", "call", "riichi")
        return table([{key: row[key] for key in shown} for row in self.entrants], f"{self['games']} games; ± is half of the 95 % interval")


def arena(players, *, walls: int = 100, rules: str = "tenhou", length: str = "hanchan", seed: int = 1) -> ArenaReport:
    """Lets players play ``walls`` × 4 games on the same walls from every seat.

    ``players``: two names (one against three) or four: ``"random"``, ``"first-legal"``, ``"tsumogiri"``, ``"simple"``,
    ``"rule-based"``, or ``"model:DIR"`` with ``",temperature=T"`` and ``",device=D"``.
    """
    names = [str(player) for player in players]
    return ArenaReport(_core._mahjong_arena(names + [names[1]] * 2 if len(names) == 2 else names, walls, rules, length, seed))


class Log:
    """A game that was played: Tenhou's XML or JSON, mjai, each gzip-compressed or not. ``rules`` and ``length`` are those of logs
    that do not name theirs. :class:`ingot.errors.FormatError` names what cannot be."""

    def __init__(self, path, *, rules: str = "tenhou", length: str = "hanchan"):
        self._log = _core._MahjongLog.read(str(path), rules, length)

    @property
    def names(self) -> list[str]:
        """The players by seat."""
        return self._log.names

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self._log.rounds

    @property
    def scores(self) -> list[int] | None:
        """Final scores by seat, where the log has them."""
        return self._log.scores

    def events(self) -> list[dict[str, Any]]:
        """Everything that happened, in mjai's form."""
        return [json.loads(line) for line in self._log.mjai().splitlines()]

    def replay(self) -> dict[str, Any]:
        """Plays the log on a table, on which every action has to be legal and every payment right: counts of ``rounds``,
        ``actions``, ``wins`` and ``draws``. :class:`ingot.errors.FormatError` names the first event that cannot be."""
        return self._log.replay()

    def review(self, player: str, seat: int = 0) -> Page:
        """A page that goes through the game with the opinion of a network, ``"model:DIR"``, as ``seat`` saw it."""
        return Page(self._log.review(player, seat))


def env(seed: int = 0, opponents=None, illegal: str = "raise"):
    """One seat for Gymnasium: :func:`ingot.rl.gymnasium_env`."""
    return rl.gymnasium_env("mahjong", seed, opponents, illegal)


def vector_env(num_envs: int = 1, seed: int = 0, seat: int = 0, opponents="random"):
    """One seat of many games for Gymnasium, moved by C++: :func:`ingot.rl.gymnasium_vector_env`."""
    return rl.gymnasium_vector_env("mahjong", num_envs, seed, seat, opponents)


def aec_env(seed: int = 0):
    """All seats, one after another, for PettingZoo: :func:`ingot.rl.pettingzoo_env`."""
    return rl.pettingzoo_env("mahjong", seed)


def parallel_env(seed: int = 0):
    """All seats at each step, for PettingZoo: :func:`ingot.rl.pettingzoo_parallel_env`."""
    return rl.pettingzoo_parallel_env("mahjong", seed)

"""Games to learn, moved many at a time by C++.

>>> games = ingot.rl.VectorGame("mahjong", games=512, seed=1)
>>> observations, legal = games.observe()
>>> rewards, ended = games.step(actions)
"""

import weakref

from . import _core
from ._core import float32, int32, uint8
from ._tensor import asarray, zeros


class VectorGame:
    """Many games of one kind, each waiting for one decision of one player. A game that ends begins anew.

    Tensors are written in place: what :meth:`observe` and :meth:`step` return is overwritten by the next call.
    """

    def __init__(self, name="mahjong", games=1, seed=0):
        self._games = _core._make_environment(name, games, seed)
        self.num_games, self.num_players, self.num_actions = self._games.games, self._games.players, self._games.actions
        self.observation_shape = self._games.observation
        self._observations = zeros(games, *self.observation_shape, dtype=float32)
        self._legal = zeros(games, self.num_actions, dtype=float32)
        self._rewards = zeros(games, self.num_players, dtype=float32)
        self._ended = zeros(games, dtype=uint8)

    def observe(self):
        """What the deciding players see [games, ...], and 1 for each legal action [games, actions]; float32."""
        self._games.observe(self._observations, self._legal)
        return self._observations, self._legal

    def to_move(self):
        """Who decides in each game: int32 [games]."""
        return self._games.to_move()

    def step(self, actions, check=True):
        """One legal action for each game (int32 [games]). Rewards of every player [games, players], and 1 where a game has
        ended [games], uint8. ``check=False`` leaves out the check that actions are legal."""
        self._games.step(asarray(actions).to(int32), self._rewards, self._ended, check)
        return self._rewards, self._ended

    def state(self):
        """Everything that the games depend on, as bytes."""
        return self._games.state()

    def restore(self, state):
        """Goes back to such a state."""
        self._games.restore(state)


def _asked(games, observations, legal):
    return asarray(games._opponents(observations, legal)).to(int32)


class SeatGames:
    """One seat of many games of one kind: each waits for that seat's decision, and the others are moved in between, all by C++.
    A game that ends begins anew.

    Args:
        name: one of :func:`names`.
        games: how many.
        seed: game i takes its chance from seed + i.
        seat: whose decisions are asked for, from 0.
        opponents: ``"random"`` (uniform among legal actions), of mahjong ``"rule-based"``, ``"simple"``, ``"tsumogiri"``,
            ``"first-legal"`` or ``"model:DIR"``, or a function ``(observations [rows, ...], legal [rows, actions]) -> actions [rows]`` that is asked
            about all games that wait for others at once.

    Tensors are written in place, as :class:`VectorGame`'s.
    """

    def __init__(self, name="mahjong", games=1, seed=0, seat=0, opponents="random"):
        self._opponents = opponents
        own = weakref.ref(self)  # C++ owns the function: no cycle through it

        def decide(observations, legal):
            return _asked(own(), observations, legal)

        self._games = _core._make_seat_games(name, games, seed, seat, decide if callable(opponents) else opponents)
        self.num_games, self.num_actions = games, self._games.actions
        self.observation_shape = self._games.observation
        self._observations = zeros(games, *self.observation_shape, dtype=float32)
        self._legal = zeros(games, self.num_actions, dtype=float32)
        self._rewards, self._ended = zeros(games, dtype=float32), zeros(games, dtype=uint8)

    def observe(self):
        """What the seat sees [games, ...], and 1 for each legal action [games, actions]; float32."""
        self._games.observe(self._observations, self._legal)
        return self._observations, self._legal

    def step(self, actions):
        """One legal action for each game (int32 [games]). The seat's rewards [games], float32, those of the others' moves
        behind it included, and 1 where a game has ended [games], uint8: the next one stands there then."""
        self._games.step(asarray(actions).to(int32), self._rewards, self._ended)
        return self._rewards, self._ended


def names() -> list[str]:
    """The games that there are, those of plugins included."""
    return _core._environment_names()


def gymnasium_env(name="mahjong", seed=0, opponents=None, illegal="raise"):
    """A Gymnasium environment in which one player learns and ``opponents(observation, action_mask)`` decides for the others
    (uniformly among legal actions by default). Observations are dicts of ``observation`` and ``action_mask``. An illegal
    action raises, or with ``illegal="end"`` ends the game with a reward of -1."""
    from ._gymnasium import SinglePlayerEnv

    return SinglePlayerEnv(name, seed, opponents, illegal)


def gymnasium_vector_env(name="mahjong", num_envs=1, seed=0, seat=0, opponents="random"):
    """A Gymnasium ``VectorEnv``: one seat of ``num_envs`` games, whose other seats C++ moves; see :class:`SeatGames`.

    Observations are dicts of ``observation`` and ``action_mask``, of all games. A game that ends begins anew in the same
    step (``AutoresetMode.SAME_STEP``); ``final_obs`` is zeros, as nobody decides there."""
    from ._gymnasium import SeatVectorEnv

    return SeatVectorEnv(name, num_envs, seed, seat, opponents)


def pettingzoo_parallel_env(name="mahjong", seed=0):
    """A PettingZoo environment (parallel) of all players: at each step who decides acts, and the others take ``env.wait``,
    the only action that their ``action_mask`` allows."""
    from ._pettingzoo import SimultaneousEnv

    return SimultaneousEnv(name, seed)


def pettingzoo_env(name="mahjong", seed=0):
    """A PettingZoo environment (AEC) of all players, with ``observation`` and ``action_mask``."""
    from ._pettingzoo import AgentCycleEnv

    return AgentCycleEnv(name, seed)

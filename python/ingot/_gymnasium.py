"""One seat of a game as a Gymnasium environment, alone or of many games at once."""

import gymnasium
import numpy
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .rl import SeatGames, VectorGame


def _observation_space(shape, actions):
    return gymnasium.spaces.Dict(
        {
            "observation": gymnasium.spaces.Box(-numpy.inf, numpy.inf, shape, numpy.float32),
            "action_mask": gymnasium.spaces.MultiBinary(actions),
        }
    )


class SinglePlayerEnv(gymnasium.Env):
    """Player 0 acts; the others are moved by ``opponents``."""

    metadata = {"render_modes": []}

    def __init__(self, name="mahjong", seed=0, opponents=None, illegal="raise"):
        if illegal not in ("raise", "end"):
            raise ValueError(f"illegal: '{illegal}' is neither raise nor end")
        self._name, self._seed, self._opponents, self._illegal = name, seed, opponents, illegal
        game = VectorGame(name, 1, seed)
        self.action_space = gymnasium.spaces.Discrete(game.num_actions)
        self.observation_space = _observation_space(game.observation_shape, game.num_actions)
        self._game = game

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self._seed = seed
        else:
            self._seed += 1
        self._game = VectorGame(self._name, 1, self._seed)
        self._ended = False
        self._advance()
        return self._observe(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        if self._illegal == "end" and not self._observe()["action_mask"][action]:
            self._ended = True
            return self._observe(), -1.0, True, False, {"illegal": True}
        reward, self._ended = self._move(int(action))
        reward += self._advance()
        return self._observe(), reward, self._ended, False, {}

    def _move(self, action):
        rewards, ended = self._game.step(numpy.array([action], numpy.int32))
        return float(rewards[0, 0].item()), bool(ended[0].item())

    def _advance(self):
        """Moves the others until player 0 decides or the game is over; what that brought player 0."""
        gained = 0.0
        while not self._ended and self._game.to_move()[0].item() != 0:
            seen = self._observe()
            legal = numpy.flatnonzero(seen["action_mask"])
            action = self.np_random.choice(legal) if self._opponents is None else self._opponents(**seen)
            reward, self._ended = self._move(int(action))
            gained += reward
        return gained

    def _observe(self):
        observations, legal = self._game.observe()
        return {
            "observation": numpy.array(observations[0], numpy.float32),
            "action_mask": numpy.array(legal[0], numpy.int8),
        }


class SeatVectorEnv(VectorEnv):
    """One seat of many games: moved, with the others, by C++. A game that ends begins anew in the same step."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, name="mahjong", num_envs=1, seed=0, seat=0, opponents="random"):
        self._arguments, self._seed = (name, seat, opponents), seed
        self.num_envs = num_envs
        self._games = SeatGames(name, num_envs, seed, seat, opponents)
        self.single_action_space = gymnasium.spaces.Discrete(self._games.num_actions)
        self.single_observation_space = _observation_space(self._games.observation_shape, self._games.num_actions)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._fresh = True

    def reset(self, *, seed=None, options=None):
        if isinstance(seed, (list, tuple, numpy.ndarray)):
            raise ValueError("one seed, of which game i takes seed + i; a list of them cannot be given")
        super().reset(seed=seed)
        if seed is not None or not self._fresh:
            self._seed = self._seed + self.num_envs if seed is None else seed
            name, seat, opponents = self._arguments
            self._games = SeatGames(name, self.num_envs, self._seed, seat, opponents)
        self._fresh = False
        return self._observe(), {}

    def step(self, actions):
        rewards, ended = self._games.step(numpy.asarray(actions, numpy.int32))
        terminated = numpy.array(ended, bool)
        infos = {}
        if terminated.any():
            # The last position of a game asks nobody for anything.
            last = {name: numpy.zeros_like(part) for name, part in self.observation_space.sample().items()}
            infos = {"final_obs": last, "_final_obs": terminated.copy()}
        return self._observe(), numpy.array(rewards, numpy.float64), terminated, numpy.zeros(self.num_envs, bool), infos

    def _observe(self):
        observations, legal = self._games.observe()
        return {"observation": numpy.array(observations), "action_mask": numpy.array(legal, numpy.int8)}

"""One seat of a game as a Gymnasium environment."""

import gymnasium
import numpy

from .rl import VectorGame


class SinglePlayerEnv(gymnasium.Env):
    """Player 0 acts; the others are moved by ``opponents``."""

    metadata = {"render_modes": []}

    def __init__(self, name="mahjong", seed=0, opponents=None, illegal="raise"):
        if illegal not in ("raise", "end"):
            raise ValueError(f"illegal: '{illegal}' is neither raise nor end")
        self._name, self._seed, self._opponents, self._illegal = name, seed, opponents, illegal
        game = VectorGame(name, 1, seed)
        self.action_space = gymnasium.spaces.Discrete(game.num_actions)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "observation": gymnasium.spaces.Box(-numpy.inf, numpy.inf, game.observation_shape, numpy.float32),
                "action_mask": gymnasium.spaces.MultiBinary(game.num_actions),
            }
        )
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

"""All seats of a game as PettingZoo environments: agents act one after another, or all at each step."""

import gymnasium
import numpy
from pettingzoo import AECEnv, ParallelEnv

from .rl import VectorGame


def _spaces(agents, shape, actions):
    observations = {
        agent: gymnasium.spaces.Dict(
            {
                "observation": gymnasium.spaces.Box(-numpy.inf, numpy.inf, shape, numpy.float32),
                "action_mask": gymnasium.spaces.Box(0, 1, (actions,), numpy.int8),
            }
        )
        for agent in agents
    }
    return observations, {agent: gymnasium.spaces.Discrete(actions) for agent in agents}


class AgentCycleEnv(AECEnv):
    """Agents are ``player_0`` ... ; observations are dicts of ``observation`` and ``action_mask``."""

    metadata = {"name": "ingot", "render_modes": [], "is_parallelizable": False}

    def __init__(self, name="mahjong", seed=0):
        super().__init__()
        self._name, self._seed = name, seed
        game = VectorGame(name, 1, seed)
        self.possible_agents = [f"player_{i}" for i in range(game.num_players)]
        spaces = _spaces(self.possible_agents, game.observation_shape, game.num_actions)
        self.observation_spaces, self.action_spaces = spaces  # pyright: ignore[reportAttributeAccessIssue]

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self._seed = self._seed + 1 if seed is None else seed
        self._game = VectorGame(self._name, 1, self._seed)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        empty = {
            "observation": numpy.zeros(self._game.observation_shape, numpy.float32),
            "action_mask": numpy.zeros(self._game.num_actions, numpy.int8),
        }
        self._seen = {agent: empty for agent in self.agents}
        self._look()

    def observe(self, agent):
        """What the agent saw when it decided last: a player learns of the game only when it is asked."""
        return self._seen[agent]

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        rewards, ended = self._game.step(numpy.array([action], numpy.int32))
        self.rewards = dict(zip(self.agents, map(float, rewards[0].tolist())))
        if ended[0].item():
            self.terminations = dict.fromkeys(self.agents, True)
            self._seen[agent] = {**self._seen[agent], "action_mask": numpy.zeros(self._game.num_actions, numpy.int8)}
        else:
            self._look()
        self._accumulate_rewards()

    def _look(self):
        self.agent_selection = self.possible_agents[self._game.to_move()[0].item()]
        observations, legal = self._game.observe()
        self._seen[self.agent_selection] = {
            "observation": numpy.array(observations[0], numpy.float32),
            "action_mask": numpy.array(legal[0], numpy.int8),
        }


class SimultaneousEnv(ParallelEnv):
    """Every agent acts at each step: who decides takes an action of the game, the others the last one, ``wait``, which is all
    that their ``action_mask`` allows. Observations are dicts of ``observation`` and ``action_mask``; an agent that waits is
    shown what it saw when it decided last."""

    metadata = {"name": "ingot", "render_modes": []}

    def __init__(self, name="mahjong", seed=0):
        self._name, self._seed = name, seed
        game = VectorGame(name, 1, seed)
        self.wait = game.num_actions  #: the action of agents that do not decide
        self.possible_agents = [f"player_{i}" for i in range(game.num_players)]
        self.agents = []
        spaces = _spaces(self.possible_agents, game.observation_shape, game.num_actions + 1)
        self.observation_spaces, self.action_spaces = spaces  # pyright: ignore[reportAttributeAccessIssue]

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self._seed = self._seed + 1 if seed is None else seed
        self._game = VectorGame(self._name, 1, self._seed)
        self.agents = self.possible_agents[:]
        self._shown = {agent: numpy.zeros(self._game.observation_shape, numpy.float32) for agent in self.agents}
        return self._observe(), {agent: {} for agent in self.agents}

    def step(self, actions):
        for agent in self.agents:
            if agent not in actions:
                raise ValueError(f"{agent} has no action: it decides, or takes env.wait ({self.wait})")
            if agent != self._decides and actions[agent] != self.wait:
                raise ValueError(f"{agent} does not decide now: its action is env.wait ({self.wait}), not {actions[agent]}")
        rewards, ended = self._game.step(numpy.array([actions[self._decides]], numpy.int32))
        gained = dict(zip(self.agents, map(float, rewards[0].tolist())))
        over = dict.fromkeys(self.agents, bool(ended[0].item()))
        observations = self._last() if ended[0].item() else self._observe()
        truncated, infos = dict.fromkeys(self.agents, False), {agent: {} for agent in self.agents}
        if ended[0].item():
            self.agents = []
        return observations, gained, over, truncated, infos

    def _mask(self, legal=None):
        mask = numpy.zeros(self.wait + 1, numpy.int8)
        if legal is None:
            mask[self.wait] = 1
        else:
            mask[: self.wait] = legal
        return mask

    def _last(self):
        return {agent: {"observation": self._shown[agent], "action_mask": self._mask()} for agent in self.agents}

    def _observe(self):
        self._decides = self.possible_agents[self._game.to_move()[0].item()]
        observations, legal = self._game.observe()
        self._shown[self._decides] = numpy.array(observations[0], numpy.float32)
        result = self._last()
        result[self._decides]["action_mask"] = self._mask(numpy.array(legal[0]))
        return result

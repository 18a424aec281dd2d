"""All seats of a game as a PettingZoo environment, whose agents act one after another."""

import gymnasium
import numpy
from pettingzoo import AECEnv

from .rl import VectorGame


class AgentCycleEnv(AECEnv):
    """Agents are ``player_0`` ... ; observations are dicts of ``observation`` and ``action_mask``."""

    metadata = {"name": "ingot", "render_modes": [], "is_parallelizable": False}

    def __init__(self, name="mahjong", seed=0):
        super().__init__()
        self._name, self._seed = name, seed
        game = VectorGame(name, 1, seed)
        self.possible_agents = [f"player_{i}" for i in range(game.num_players)]
        space = gymnasium.spaces.Dict(
            {
                "observation": gymnasium.spaces.Box(-numpy.inf, numpy.inf, game.observation_shape, numpy.float32),
                "action_mask": gymnasium.spaces.Box(0, 1, (game.num_actions,), numpy.int8),
            }
        )
        self.observation_spaces = {agent: space for agent in self.possible_agents}
        actions = gymnasium.spaces.Discrete(game.num_actions)
        self.action_spaces = {agent: actions for agent in self.possible_agents}

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

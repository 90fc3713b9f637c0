"""A model-based rival: MBPO (Janner, Fu, Zhang and Levine 2019), written from the paper.

Every step of the environments is learned by an ensemble of networks, each of which predicts a
Gaussian of the next observation and the reward (Chua, Calandra, McAllister and Levine 2018). Short
rollouts in them, from states that were really visited, fill a memory of imagined steps; from
there, and a small share of real ones, SAC of Stable-Baselines3 learns with many updates a step.

Nothing is known of rewards. Imagined observations stay within the bounds of their space, and the
context that an agent may observe never changes. Episodes that end early are not modelled.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor, nn

#: Learned bounds of the log variances begin here, for targets of unit variance.
_LEAST, _MOST = -10.0, 0.5
#: Weight of the sum of these bounds in the loss, and of the squared weights of the networks.
_BOUNDS, _DECAY = 0.01, 1e-5
#: The share of steps that are held out, the size of batches, and the step size of Adam.
_HELD_OUT, _BATCH, _RATE = 0.1, 256, 1e-3
#: A fit ends after so many epochs, or so many that were no better on what is held out.
_EPOCHS, _PATIENCE = 200, 8
#: Better means that the mean squared error falls by this share.
_BETTER = 0.01


class Ensemble(nn.Module):
    """Networks with the same inputs: means and log variances, shape (members, n, outputs)."""

    def __init__(self, members: int, inputs: int, outputs: int, hidden: int) -> None:
        super().__init__()
        sizes = [inputs, hidden, hidden, 2 * outputs]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for before, after in itertools.pairwise(sizes):
            weight = torch.empty(members, before, after)
            nn.init.trunc_normal_(weight, std=0.5 / math.sqrt(before))
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(members, 1, after)))
        self.least = nn.Parameter(torch.full((outputs,), _LEAST))
        self.most = nn.Parameter(torch.full((outputs,), _MOST))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and log variances for inputs of shape (members, n, inputs)."""
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if k + 1 < len(self.weights):
                x = nn.functional.silu(x)
        mean, spread = x.chunk(2, dim=-1)
        spread = self.most - nn.functional.softplus(self.most - spread)
        return mean, self.least + nn.functional.softplus(spread - self.least)


class World:
    """What the ensemble knows: changes of observations, and rewards.

    Parameters
    ----------
    low, high : array, shape (q,)
        Bounds of the observations.
    constant : int
        So many coordinates at the end, the context, never change.
    actions, members, hidden : int
        Size of an action; how many networks there are, and the units of both their layers.
    """

    def __init__(
        self, low: Any, high: Any, constant: int, actions: int, members: int, hidden: int
    ) -> None:
        self.low, self.high = (torch.as_tensor(end, dtype=torch.float32) for end in (low, high))
        self.moving = len(self.low) - constant
        inputs = len(self.low) + actions
        self.network = Ensemble(members, inputs, self.moving + 1, hidden)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=_RATE, weight_decay=_DECAY)
        self.members = members

    def fit(self, seen: Tensor, actions: Tensor, after: Tensor, rewards: Tensor) -> float:
        """Fit the networks to all steps, going on from where they are; return the error.

        That is the mean squared error of the held-out steps, relative to the targets' variance.
        """
        inputs = torch.cat([seen, actions], dim=1)
        change = (after - seen)[:, : self.moving]
        targets = torch.cat([change, rewards], dim=1)
        self.input_scale = inputs.mean(0), inputs.std(0).clamp_min(1e-3)
        self.target_scale = targets.mean(0), targets.std(0).clamp_min(1e-6)
        x = (inputs - self.input_scale[0]) / self.input_scale[1]
        y = (targets - self.target_scale[0]) / self.target_scale[1]
        order = torch.randperm(len(x))
        held = order[: max(1, int(_HELD_OUT * len(x)))]
        rest = order[len(held) :]
        best, waited = math.inf, 0
        kept = self._state()
        for _ in range(_EPOCHS):
            # Each network sees the steps in an order of its own, drawn with replacement.
            rows = rest[torch.randint(len(rest), (self.members, len(rest)))]
            for batch in rows.split(_BATCH, dim=1):
                self._improve(x[batch], y[batch])
            error = self._error(x[held], y[held])
            if error < (1.0 - _BETTER) * best:
                best, waited, kept = error, 0, self._state()
            else:
                waited += 1
            if waited > _PATIENCE:
                break
        self.network.load_state_dict(kept)
        return best

    def step(self, seen: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return drawn next observations and rewards, each row by a network drawn at random."""
        x = (torch.cat([seen, actions], dim=1) - self.input_scale[0]) / self.input_scale[1]
        with torch.no_grad():
            mean, spread = self.network(x.expand(self.members, -1, -1))
        member, row = torch.randint(self.members, (len(x),)), torch.arange(len(x))
        drawn = mean[member, row]
        drawn = drawn + torch.exp(0.5 * spread[member, row]) * torch.randn_like(drawn)
        drawn = self.target_scale[0] + drawn * self.target_scale[1]
        after = seen.clone()
        after[:, : self.moving] += drawn[:, :-1]
        return torch.minimum(torch.maximum(after, self.low), self.high), drawn[:, -1:]

    def _improve(self, x: Tensor, y: Tensor) -> None:
        mean, spread = self.network(x)
        likely = ((mean - y) ** 2 * torch.exp(-spread) + spread).mean(dim=(1, 2)).sum()
        loss = likely + _BOUNDS * (self.network.most - self.network.least).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def _error(self, x: Tensor, y: Tensor) -> float:
        with torch.no_grad():
            mean, _ = self.network(x.expand(self.members, -1, -1))
        return float(((mean - y) ** 2).mean())

    def _state(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.network.state_dict().items()}


class ImaginedSteps:
    """The newest imagined steps, with which a share of real ones is mixed."""

    def __init__(self, size: int, real_share: float) -> None:
        self.size, self.real_share = size, real_share
        self.columns: list[Tensor] = []
        self.next, self.filled = 0, 0
        self.real: ReplayBuffer | None = None

    def add(self, *columns: Tensor) -> None:
        """Add rows of observations, actions, next observations and rewards over the oldest."""
        n = len(columns[0])
        if not self.columns:
            self.columns = [torch.empty(self.size, one.shape[1]) for one in columns]
        rows = (self.next + torch.arange(n)) % self.size
        for column, one in zip(self.columns, columns, strict=True):
            column[rows] = one
        self.next, self.filled = (self.next + n) % self.size, min(self.size, self.filled + n)

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """Return a batch as the memory of Stable-Baselines3 does."""
        assert self.real is not None
        few = max(1, round(self.real_share * batch_size))
        real = self.real.sample(few, env=env)
        rows = torch.randint(self.filled, (batch_size - few,))
        seen, actions, after, rewards = (column[rows] for column in self.columns)
        return ReplayBufferSamples(
            torch.cat([real.observations.float(), seen]),
            torch.cat([real.actions, actions]),
            torch.cat([real.next_observations.float(), after]),
            torch.cat([real.dones, torch.zeros_like(rewards)]),
            torch.cat([real.rewards, rewards]),
        )


class MBPO(SAC):
    """SAC that learns from imagined steps.

    Parameters
    ----------
    constant : int
        Coordinates at the end of an observation that never change.
    members, hidden : int
        Of the ensemble.
    refit : int
        Real steps after which the ensemble is fitted again.
    rollouts, look_ahead : int
        Imagined rollouts for each real step, and their length.
    memory : int
        How many imagined steps are kept.
    real_share : float
        The share of real steps in a batch.
    """

    def __init__(
        self,
        *arguments: Any,
        constant: int = 0,
        members: int = 5,
        hidden: int = 128,
        refit: int = 200,
        rollouts: int = 50,
        look_ahead: int = 5,
        memory: int = 100_000,
        real_share: float = 0.05,
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self.refit, self.rollouts, self.look_ahead = refit, rollouts, look_ahead
        space, actions = self.observation_space, int(np.prod(self.action_space.shape))  # type: ignore[arg-type]
        self.world = World(space.low, space.high, constant, actions, members, hidden)  # type: ignore[attr-defined]
        self.imagined = ImaginedSteps(memory, real_share)
        self.fitted = 0

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Fit the ensemble if that is due, imagine, and update the policy and its critics."""
        real = self.replay_buffer
        assert real is not None
        if self.fitted == 0 or self.num_timesteps - self.fitted >= self.refit:
            self.world.fit(*_steps(real))
            self.fitted = self.num_timesteps
        self._imagine(real, self.rollouts * self.n_envs)
        self.imagined.real = real
        self.replay_buffer = self.imagined  # type: ignore[assignment]
        try:
            super().train(gradient_steps, batch_size)
        finally:
            self.replay_buffer = real

    def _imagine(self, real: ReplayBuffer, count: int) -> None:
        """Add rollouts of the policy from visited states to the imagined steps."""
        seen = real.sample(count).observations.float()
        self.policy.set_training_mode(False)
        for _ in range(self.look_ahead):
            with torch.no_grad():
                actions = self.actor(seen, deterministic=False)
            after, rewards = self.world.step(seen, actions)
            self.imagined.add(seen, actions, after, rewards)
            seen = after


def _steps(real: ReplayBuffer) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return all real steps: observations, actions, next observations and rewards."""
    count = real.size()
    columns = (real.observations, real.actions, real.next_observations, real.rewards[..., None])
    seen, actions, after, rewards = (
        torch.as_tensor(one[:count].reshape(-1, one.shape[-1]), dtype=torch.float32)
        for one in columns
    )
    return seen, actions, after, rewards

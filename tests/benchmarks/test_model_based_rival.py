"""MBPO: what its models learn, keep and imagine."""

import numpy as np
import pytest

from benchmarks import rival
from crosslearning.tasks import task_set

torch = pytest.importorskip("torch", reason="the extra 'bench' is not installed")
pytest.importorskip("stable_baselines3", reason="the extra 'bench' is not installed")


def test_the_ensemble_learns_a_system_within_its_bounds_and_leaves_the_context_alone():
    from benchmarks.model_based_rival import World

    torch.manual_seed(0)
    world = World([-1.0, -1.0, -1.0], [1.0, 1.0, 1.0], 1, actions=1, members=3, hidden=32)
    seen, actions = 2.0 * torch.rand(600, 3) - 1.0, 2.0 * torch.rand(600, 1) - 1.0

    def truth(x, a):
        # The last coordinate is the context: it scales what the action does.
        change = torch.cat([0.3 * x[:, 1:2], 0.2 * x[:, 2:] * a, 0.0 * a], dim=1)
        return (x + change).clamp(-1.0, 1.0), -x[:, :1] + 5.0

    error = world.fit(seen, actions, *truth(seen, actions))
    assert error < 0.05
    fresh, acted = 2.0 * torch.rand(400, 3) - 1.0, 2.0 * torch.rand(400, 1) - 1.0
    after, rewards = world.step(fresh, acted)
    true_after, true_rewards = truth(fresh, acted)
    assert torch.equal(after[:, 2], fresh[:, 2])
    assert float(after.abs().max()) <= 1.0
    assert float((after - true_after).std()) < 0.1
    assert float((rewards - true_rewards).abs().mean()) < 0.2


def test_imagined_steps_are_the_newest_and_mixed_with_real_ones():
    from benchmarks.model_based_rival import ImaginedSteps

    class Real:
        def sample(self, count, env=None):
            from stable_baselines3.common.type_aliases import ReplayBufferSamples

            nan = torch.full((count, 1), torch.nan)
            return ReplayBufferSamples(nan, nan, nan, torch.ones(count, 1), nan)

    steps = ImaginedSteps(10, real_share=0.25)
    steps.real = Real()
    for k in range(7):
        rows = torch.full((4, 1), float(k))
        steps.add(rows, rows, rows, rows)
    batch = steps.sample(400)
    assert int(batch.observations.isnan().sum()) == 100
    imagined = batch.rewards[~batch.rewards.isnan()]
    # Of 28 steps the last ten are left, and none of them is an end.
    assert set(imagined.tolist()) == {4.0, 5.0, 6.0}
    assert int(batch.dones.sum()) == 100


def test_the_memory_of_real_steps_is_its_own_again_after_every_update():
    agent, _ = rival.learn(
        "mbpo",
        task_set("pendulums:2"),
        124,
        0,
        rival.Setting("", {"learning_starts": 120, "rollouts": 3, "look_ahead": 2, "hidden": 8}),
        contexts=[[0.5], [-0.5]],
    )
    model = agent.model
    assert model.world.moving == 3
    assert model.replay_buffer is model.imagined.real
    assert 2 * model.replay_buffer.size() == 124
    # Two rounds of three rollouts of two steps for each of two environments.
    assert model.imagined.filled == 2 * 3 * 2 * 2
    seen = model.imagined.columns[0][: model.imagined.filled]
    assert set(np.abs(seen[:, 3].numpy())) == {0.5}

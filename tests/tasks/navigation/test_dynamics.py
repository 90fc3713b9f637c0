"""The physics of the navigation task: moves, rewards, collisions, goals and starts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosslearning.tasks import Circle, Ellipse, Navigation, NavigationEnvironment
from crosslearning.tasks.navigation import dynamics as dynamics
from crosslearning.tasks.navigation.dynamics import FAR_AWAY, RESET_SIZE, STATE_SIZE, State
from crosslearning.tasks.navigation.obstacles import clearances, wrap_angle

TURNED = Ellipse((4.0, 4.0), (0.5, 2.0), 0.6)


def start(x, y, heading=0.0):
    state = np.zeros(STATE_SIZE)
    state[[State.X, State.Y, State.HEADING]] = x, y, heading
    state[State.ARRIVAL_STEP] = -1.0
    return state


def observed(navigation, x, y, heading=0.0):
    observation = np.empty(5)
    dynamics.observe(navigation.parameters, start(x, y, heading), observation)
    return observation


def drive(navigation, state, actions):
    """Apply the actions in turn; return the rewards. As in any rollout, an end is the end."""
    parameters, rewards = navigation.parameters, []
    for action in actions:
        over = dynamics.ended(parameters, state)
        rewards.append(0.0 if over else dynamics.step(parameters, state, np.array(action, float)))
    return rewards


def paper_step(x, y, heading, speed, turn, centre, radius, goal):
    """The equations of the paper as they stand, for one circle and a collision by sampling."""
    speed, turn = min(max(speed, 0.0), 2.0), min(max(turn, -math.pi), math.pi)
    next_x = x + 0.5 * speed * math.cos(heading)
    next_y = y + 0.5 * speed * math.sin(heading)
    shares = np.linspace(0.0, 1.0, 2_001)
    path_x, path_y = x + shares * (next_x - x), y + shares * (next_y - y)
    crashed = np.hypot(path_x - centre[0], path_y - centre[1]).min() <= radius
    reward = -100.0 if crashed else 10.0 - 10.0 * math.hypot(next_x - goal[0], next_y - goal[1])
    return next_x, next_y, heading + 0.5 * turn, reward, crashed


def test_a_step_follows_the_paper():
    generator = np.random.default_rng(0)
    navigation = Navigation(obstacles=(Circle((7.0, 7.0), 2.0),))
    crashes = 0
    for _ in range(40):
        place = generator.uniform(0.0, 10.0, size=2)
        if not navigation.is_free(*place):
            continue
        state = start(*place, generator.uniform(-np.pi, np.pi))
        for _ in range(30):
            action = generator.normal([1.0, 0.0], [1.0, 2.0])
            reference = paper_step(*state[:3], *action, (7.0, 7.0), 2.0, (5.0, 6.0))
            (reward,) = drive(navigation, state, [action])
            assert reward == pytest.approx(reference[3], abs=1e-12)
            assert bool(state[State.CRASHED]) == reference[4]
            if reference[4]:
                crashes += 1
                break
            np.testing.assert_allclose(state[:2], reference[:2], atol=1e-13)
            assert wrap_angle(state[State.HEADING] - reference[2]) == pytest.approx(0, abs=1e-13)
    assert crashes > 5


def test_the_move_uses_the_old_heading():
    state = start(1.0, 1.0, 0.0)
    drive(Navigation(), state, [(1.0, math.pi / 2)])
    np.testing.assert_allclose(state[:3], [1.5, 1.0, math.pi / 4], atol=1e-15)


def test_actions_are_clipped_to_the_bounds():
    wild, tame = start(1.0, 1.0), start(1.0, 1.0)
    assert drive(Navigation(), wild, [(9.0, -50.0)]) == drive(Navigation(), tame, [(2.0, -math.pi)])
    np.testing.assert_array_equal(wild, tame)
    backwards = start(1.0, 1.0)
    drive(Navigation(), backwards, [(-3.0, 0.0)])
    assert backwards[State.X] == 1.0


def test_the_observation_of_a_circle_in_closed_form():
    navigation = Navigation(obstacles=(Circle((4.0, 5.0), 1.0),), goals=((1.0, 7.0),))
    expected = [4.0, math.atan2(4.0, 3.0) - 0.3, 6.0, math.pi / 2 - 0.3, 2 * math.asin(0.2)]
    np.testing.assert_allclose(observed(navigation, 1.0, 1.0, 0.3), expected, atol=1e-14)
    by_centre = navigation.replace(obstacle_distance="centre")
    expected[0] = 5.0
    np.testing.assert_allclose(observed(by_centre, 1.0, 1.0, 0.3), expected, atol=1e-14)


def test_the_distance_to_the_centre_belongs_to_the_obstacle_with_the_nearest_surface():
    navigation = Navigation(
        obstacles=(Circle((3.0, 0.0), 0.2), Ellipse((0.0, 6.0), (1.0, 4.5))),
        goals=((9.0, 9.0),),
        obstacle_distance="centre",
    )
    assert observed(navigation, 0.0, 0.0)[0] == pytest.approx(6.0)


def test_without_an_obstacle_one_is_observed_far_away():
    observation = observed(Navigation(obstacles=()), 1.0, 1.0, 0.4)
    np.testing.assert_array_equal(observation[[0, 1, 4]], [FAR_AWAY, 0.0, 0.0])
    assert np.isfinite(observation).all()


place = st.floats(-5.0, 15.0)
angle = st.floats(-3.1, 3.1)


@settings(deadline=None)
@given(place, place, angle, angle, st.floats(-20.0, 20.0), st.floats(-20.0, 20.0))
def test_the_observation_does_not_depend_on_the_frame(x, y, heading, turn, east, north):
    cosine, sine = math.cos(turn), math.sin(turn)

    def moved(px, py):
        return cosine * px - sine * py + east, sine * px + cosine * py + north

    goal, round_one = (9.0, 1.0), Circle((2.0, 7.0), 1.0)
    here = Navigation(obstacles=(TURNED, round_one), goals=(goal,))
    clearance = min(
        abs(clearances((x, y), here.obstacles)[0]), math.hypot(x - goal[0], y - goal[1])
    )
    apart = np.diff([clearances((x, y), [o])[0] for o in here.obstacles])
    if clearance < 1e-3 or abs(apart[0]) < 1e-6:
        return  # at a surface, at the goal or at a tie the observation may change at once
    there = Navigation(
        obstacles=(
            Ellipse(moved(4.0, 4.0), (0.5, 2.0), 0.6 + turn),
            Circle(moved(2.0, 7.0), 1.0),
        ),
        goals=(moved(*goal),),
        start_area=((-100.0, 100.0), (-100.0, 100.0)),
    )
    before = observed(here, x, y, heading)
    after = observed(there, *moved(x, y), heading + turn)
    difference = after - before
    difference[[1, 3]] = [wrap_angle(value) for value in difference[[1, 3]]]
    np.testing.assert_allclose(difference, 0.0, atol=1e-8)
    assert (np.abs(before[[1, 3]]) <= math.pi).all()


def test_the_observation_is_continuous_outside():
    navigation = Navigation(obstacles=(TURNED,), goals=((9.0, 1.0),))
    parameters = navigation.parameters
    generator = np.random.default_rng(1)
    checked = 0
    for _ in range(20):
        begin, end = generator.uniform(0.0, 8.0, size=(2, 2))
        shares = np.linspace(0.0, 1.0, 4_001)
        path = begin + shares[:, None] * (end - begin)
        free = clearances(path, navigation.obstacles) > 0.02
        seen = np.empty((len(path), 5))
        for point, observation in zip(path, seen, strict=True):
            dynamics.observe(parameters, start(*point, 0.5), observation)
        change = np.diff(seen, axis=0)
        change[:, [1, 3]] = (change[:, [1, 3]] + np.pi) % (2.0 * np.pi) - np.pi
        away_from_goal = seen[:-1, 2] > 0.1
        steady = free[:-1] & free[1:] & away_from_goal
        checked += steady.sum()
        assert np.abs(change[steady]).max() < 0.05
    assert checked > 40_000


def test_a_crash_is_absorbing():
    navigation = Navigation(obstacles=(Circle((3.0, 1.0), 0.5),))
    state = start(1.0, 1.0)
    rewards = drive(navigation, state, [(2.0, 1.0 * k) for k in (0, 0, 1, -1, 2)] * 20)
    assert rewards[0] > -100.0
    assert rewards[1:] == [-100.0] * 99
    # Stuck where the path met the obstacle.
    np.testing.assert_allclose(state[:3], [2.5, 1.0, 0.0], atol=1e-12)
    assert state[State.PATH_LENGTH] == pytest.approx(1.5)
    assert not dynamics.ended(navigation.parameters, state)
    assert state[State.STEPS] == 100


def test_no_action_leaves_a_crash():
    navigation = Navigation(obstacles=(TURNED,), goals=((9.0, 1.0),))
    for place in np.random.default_rng(6).uniform(1.0, 3.0, size=(40, 2)):
        state = start(*place, math.atan2(4.0 - place[1], 4.0 - place[0]))
        drive(navigation, state, [(2.0, 0.0)] * 6)
        assert state[State.CRASHED] == 1.0
        stuck = state[:3].copy()
        assert drive(navigation, state, [(0.0, 0.0), (0.0, 3.0), (2.0, 0.0)]) == [-100.0] * 3
        np.testing.assert_array_equal(state[:3], stuck)


def test_an_absorbing_crash_is_worse_than_driving_and_a_terminal_one_is_not():
    def discounted(rewards):
        return sum(0.9**t * reward for t, reward in enumerate(rewards))

    base = Navigation(obstacles=(Circle((2.0, 2.0), 1.0),), goals=((6.25, 2.0),))
    into = [(2.0, 0.0)] * 100  # straight at the obstacle
    left, right, ahead = math.pi / 2, -math.pi / 2, (2.0, 0.0)
    around = [(0.0, left), ahead, ahead, (2.0, right), ahead, (2.0, right), *[ahead] * 3]
    around += [(0.0, 0.0)] * (100 - len(around))
    returns = {}
    for rule in ("absorbing", "terminate"):
        navigation = base.replace(crash=rule)
        for name, actions in (("crash", into), ("drive", around)):
            state = start(0.0, 2.0)
            returns[rule, name] = discounted(drive(navigation, state, actions))
            assert bool(state[State.CRASHED]) == (name == "crash")
            assert bool(state[State.ARRIVED]) == (name == "drive")
    assert returns["absorbing", "drive"] > returns["absorbing", "crash"] + 500.0
    assert returns["terminate", "crash"] > returns["terminate", "drive"] + 40.0


def test_a_crash_can_end_the_episode():
    navigation = Navigation(obstacles=(Circle((3.0, 1.0), 0.5),), crash="terminate")
    state = start(1.0, 1.0)
    assert drive(navigation, state, [(2.0, 0.0)] * 2)[1] == -100.0
    assert dynamics.ended(navigation.parameters, state)
    frozen = state.copy()
    assert drive(navigation, state, [(2.0, 1.0)] * 3) == [0.0] * 3
    np.testing.assert_array_equal(state, frozen)


def test_a_crash_can_be_passed_through():
    navigation = Navigation(obstacles=(Circle((3.0, 1.0), 0.5),), crash="continue")
    state = start(1.0, 1.0)
    rewards = np.array(drive(navigation, state, [(2.0, 0.0)] * 5))
    assert (rewards == -100.0).tolist() == [False, True, True, False, False]
    assert state[State.X] == pytest.approx(6.0)
    assert state[State.CRASHED] == 1.0


@pytest.mark.parametrize("shape", [Circle((3.0, 1.0), 0.1), Ellipse((3.0, 1.0), (0.01, 0.5), 0.3)])
def test_a_small_obstacle_cannot_be_jumped_through(shape):
    # Steps of length 1 from 2.5 to 3.5: neither end is near the obstacle.
    swept, ends_only = start(2.5, 1.0), start(2.5, 1.0)
    assert drive(Navigation(obstacles=(shape,)), swept, [(2.0, 0.0)]) == [-100.0]
    assert swept[State.X] < 3.0
    assert drive(Navigation(obstacles=(shape,), swept=False), ends_only, [(2.0, 0.0)])[0] > -100.0
    assert ends_only[State.X] == 3.5
    assert ends_only[State.CRASHED] == 0.0


def test_without_sweeping_the_end_of_a_step_still_counts():
    navigation = Navigation(obstacles=(Circle((3.0, 1.0), 0.5),), swept=False)
    state = start(2.0, 1.0)
    assert drive(navigation, state, [(1.8, 0.0)]) == [-100.0]
    assert state[State.X] == pytest.approx(2.9)


def test_goals_come_in_sequence():
    navigation = Navigation(obstacles=(), goals=((2.0, 0.0), (4.0, 0.0)), arrival_radius=0.3)
    state = start(0.0, 0.0)
    rewards = drive(navigation, state, [(2.0, 0.0)] * 4 + [(0.0, 0.0)])
    # The step that arrives is paid for the goal it arrives at.
    np.testing.assert_allclose(rewards, [0.0, 10.0, 0.0, 10.0, 10.0], atol=1e-14)
    assert (state[State.GOAL], state[State.ARRIVED], state[State.ARRIVAL_STEP]) == (1, 1, 4)

    state = start(0.0, 0.0)
    drive(navigation, state, [(2.0, 0.0)] * 2)
    assert (state[State.GOAL], state[State.ARRIVED]) == (1, 0)
    observation = np.empty(5)
    dynamics.observe(navigation.parameters, state, observation)
    assert observation[2] == pytest.approx(2.0)  # already to the next goal
    # Passing the second goal on the way to the first does not count.
    state = start(5.0, 0.0, math.pi)
    drive(navigation, state, [(2.0, 0.0)])
    assert (state[State.GOAL], state[State.ARRIVED]) == (0, 0)


def test_arrival_is_judged_at_the_end_of_a_step_within_the_radius():
    navigation = Navigation(obstacles=(), goals=((1.0, 0.0),), arrival_radius=0.5)
    for stop, arrived in ((0.49, 0.0), (0.51, 1.0), (1.49, 1.0), (1.51, 0.0)):
        state = start(stop - 0.4, 0.0)
        drive(navigation, state, [(0.8, 0.0)])
        assert state[State.ARRIVED] == arrived


def test_arrival_can_end_the_episode():
    navigation = Navigation(obstacles=(), goals=((1.0, 0.0),), arrival="terminate")
    state = start(0.0, 0.0)
    assert drive(navigation, state, [(2.0, 0.0)] * 3) == pytest.approx([10.0, 0.0, 0.0])
    assert dynamics.ended(navigation.parameters, state)
    assert state[State.STEPS] == 1


def test_rewards_are_parameters():
    navigation = Navigation(
        obstacles=(Circle((3.0, 0.0), 0.5),),
        goals=((1.0, 2.0),),
        crash_reward=-7.0,
        goal_reward=1.0,
        distance_cost=0.5,
    )
    assert drive(navigation, start(0.0, 0.0), [(2.0, 0.0)] * 4) == [
        0.0,
        -0.11803398874989490,
        -7,
        -7,
    ]


def reset(navigation, uniforms):
    state = np.full(STATE_SIZE, np.nan)
    dynamics.start_episode(navigation.parameters, np.asarray(uniforms, float), state)
    return state


def test_a_start_is_uniform_in_the_area_and_free():
    navigation = Navigation(obstacles=(Circle((7.0, 7.0), 2.0),))
    uniforms = np.random.default_rng(2).random((4_000, RESET_SIZE))
    states = np.array([reset(navigation, row) for row in uniforms])
    assert (clearances(states[:, :2], navigation.obstacles) > 0.0).all()
    np.testing.assert_array_equal(states[:, 3:], np.tile([0, 0, 0, -1, 0, 0], (4_000, 1)))
    assert (states[:, :2].min(), states[:, :2].max()) == pytest.approx((0.0, 10.0), abs=0.02)
    assert states[:, 2].min() >= -math.pi
    assert states[:, 2].max() < math.pi
    # Uniform on what is free: 100 − 4π, of which the quarter [0, 5]² holds 25.
    share = np.mean((states[:, :2] < 5.0).all(axis=1))
    assert share == pytest.approx(25.0 / (100.0 - 4.0 * math.pi), abs=0.025)
    # The first candidate is the plain draw.
    np.testing.assert_allclose(states[0, :2], 10.0 * uniforms[0, :2], rtol=1e-15)


def test_a_covered_start_moves_on_to_the_next_candidate_and_at_last_to_a_free_place():
    navigation = Navigation(obstacles=(Circle((7.0, 7.0), 2.0),))
    uniforms = np.full(RESET_SIZE, 0.7)
    assert navigation.is_free(*reset(navigation, uniforms)[:2])
    uniforms[3:5] = 0.25, 0.5
    np.testing.assert_allclose(reset(navigation, uniforms)[:2], [2.5, 5.0])
    literal = navigation.replace(start_in_obstacle="crash")
    state = reset(literal, uniforms)
    np.testing.assert_allclose(state[:2], [7.0, 7.0])
    assert drive(literal, state, [(0.0, 0.0)]) == [-100.0]


def test_a_share_of_the_starts_is_near_an_obstacle():
    obstacles = (TURNED, Circle((10.0, 2.0), 1.5))
    navigation = Navigation(obstacles=obstacles, near_share=0.3, near_distance=0.25)
    uniforms = np.random.default_rng(2).random((4_000, RESET_SIZE))
    states = np.array([reset(navigation, row) for row in uniforms])
    distances = clearances(states[:, :2], obstacles)
    assert np.all(distances > 0.0)
    assert states[:, :2].min() >= 0.0
    assert states[:, :2].max() <= 10.0
    near = uniforms[:, -2] < 0.3
    # Uniform in the distance; half of the circle is outside the area, and redrawn.
    assert distances[near].max() <= 0.25
    assert distances[near].mean() == pytest.approx(0.125, abs=0.01)
    at_circle = clearances(states[near, :2], obstacles[1:]) <= 0.25
    assert at_circle.mean() == pytest.approx(1.0 / 3.0, abs=0.05)
    # The others are where they would be without.
    plain = np.array([reset(navigation.replace(near_share=0.0), row) for row in uniforms])
    np.testing.assert_array_equal(states[~near], plain[~near])
    alone = Navigation(obstacles=(), near_share=0.3)
    np.testing.assert_allclose(reset(alone, uniforms[near][0])[:2], 10.0 * uniforms[near][0, :2])


@pytest.mark.parametrize(("place", "radius"), [((7, 2), 0.5), ((2, 2), 1.0), ((7, 7), 2.0)])
def test_the_grid_of_goals_keeps_clear_of_the_obstacle(place, radius):
    goals = Navigation(obstacles=(Circle(place, radius),), goals="grid").goals
    ticks = [0.5 + i for i in range(10)]
    expected = {
        (x, y) for x in ticks for y in ticks if math.dist((x, y), place) > radius + 0.5 + 1e-12
    }
    assert set(goals) == expected
    assert len(goals) == len(expected)


def test_a_redrawn_goal_is_uniform_and_leaves_the_start_as_it_was():
    obstacle = Circle((7.0, 7.0), 2.0)
    fixed = Navigation(obstacles=(obstacle,))
    redrawn = fixed.replace(goals="grid", goal_choice="redrawn")
    uniforms = np.random.default_rng(5).random((8_000, RESET_SIZE))
    states = np.array([reset(redrawn, row) for row in uniforms])
    chosen, counts = np.unique(states[:, State.GOAL], return_counts=True)
    assert chosen.tolist() == list(range(len(redrawn.goals)))
    expected = len(states) / len(redrawn.goals)
    assert np.sum((counts - expected) ** 2) / expected < 2.0 * len(redrawn.goals)  # chi square
    plain = np.array([reset(fixed, row) for row in uniforms])
    states[:, State.GOAL] = 0.0
    np.testing.assert_array_equal(states, plain)
    last = reset(redrawn, np.full(RESET_SIZE, np.nextafter(1.0, 0.0)))
    assert last[State.GOAL] == len(redrawn.goals) - 1


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 300), st.floats(0.0, 1.0, exclude_max=True))
def test_every_number_selects_a_goal_that_exists(count, number):
    goals = tuple((float(i), 0.0) for i in range(count))
    navigation = Navigation(obstacles=(), goals=goals, goal_choice="redrawn")
    state = reset(navigation, np.full(RESET_SIZE, number))
    assert state[State.GOAL] in range(count)


def test_a_redrawn_goal_is_the_last_one():
    goals = ((1.0, 0.0), (9.0, 9.0))
    navigation = Navigation(obstacles=(), goals=goals, goal_choice="redrawn")
    state = start(0.0, 0.0)
    assert drive(navigation, state, [(2.0, 0.0)]) == [10.0]
    assert (state[State.GOAL], state[State.ARRIVED], state[State.ARRIVAL_STEP]) == (0, 1, 1)
    other = start(0.0, 0.0)
    other[State.GOAL] = 1.0
    assert drive(navigation, other, [(2.0, 0.0)])[0] == pytest.approx(10 - 10 * math.hypot(8, 9))
    outcomes = NavigationEnvironment(navigation).outcomes(np.stack([state, other]))
    assert outcomes["goals_reached"].tolist() == [1, 0]


def test_fixed_starts_and_headings():
    uniforms = np.random.default_rng(3).random(RESET_SIZE)
    fixed = Navigation(start=(0.5, 1.5), heading=0.25)
    np.testing.assert_array_equal(reset(fixed, uniforms)[:3], [0.5, 1.5, 0.25])
    turned = reset(Navigation(start=(0.5, 1.5)), uniforms)
    assert turned[State.HEADING] == pytest.approx(-math.pi + 2.0 * math.pi * uniforms[2])
    area = Navigation(start_area=((2.0, 3.0), (-5.0, -1.0)))
    np.testing.assert_allclose(
        reset(area, uniforms)[:2], [2.0 + uniforms[0], -5.0 + 4.0 * uniforms[1]]
    )


def test_outcomes_read_final_states():
    states = np.stack([start(1.0, 2.0), start(3.0, 4.0)])
    states[0, [State.CRASHED, State.GOAL, State.PATH_LENGTH]] = 1.0, 2.0, 7.5
    states[1, [State.ARRIVED, State.ARRIVAL_STEP]] = 1.0, 12.0
    outcomes = NavigationEnvironment().outcomes(states)
    assert outcomes["crashed"].tolist() == [True, False]
    assert outcomes["arrived"].tolist() == [False, True]
    assert outcomes["goals_reached"].tolist() == [2, 1]
    np.testing.assert_array_equal(outcomes["arrival_time"], [np.nan, 12.0])
    np.testing.assert_array_equal(outcomes["path_length"], [7.5, 0.0])
    np.testing.assert_array_equal(outcomes["position"], [[1.0, 2.0], [3.0, 4.0]])


def test_bad_numbers_are_seen():
    state = start(1.0, 1.0)
    assert math.isnan(drive(Navigation(), state, [(math.nan, 0.0)])[0])


def test_compiled_functions_agree_with_their_python_bodies():
    generator = np.random.default_rng(4)
    for crash in ("absorbing", "terminate", "continue"):
        navigation = Navigation(
            obstacles=(TURNED, Circle((7.0, 2.0), 1.5)),
            goals=((1.0, 8.0), (9.0, 9.0)),
            crash=crash,
            near_share=0.5,
        )
        parameters = navigation.parameters
        for _ in range(20):
            uniforms = generator.random(RESET_SIZE)
            fast, plain = np.empty(STATE_SIZE), np.empty(STATE_SIZE)
            dynamics.start_episode(parameters, uniforms, fast)
            dynamics.start_episode.py_func(parameters, uniforms, plain)
            np.testing.assert_allclose(fast, plain, atol=1e-14)
            for action in generator.uniform([0.0, -2.0], [2.0, 2.0], size=(15, 2)):
                reward = dynamics.step(parameters, fast, action)
                expected = dynamics.step.py_func(parameters, plain, action)
                assert reward == pytest.approx(expected, abs=1e-11)
                np.testing.assert_allclose(fast, plain, atol=1e-12)
                seen, wanted = np.empty(5), np.empty(5)
                dynamics.observe(parameters, fast, seen)
                dynamics.observe.py_func(parameters, plain, wanted)
                # Where a crash has put the robot on a surface, the opening angle is the square
                # root of a rounding error away from π.
                np.testing.assert_allclose(seen, wanted, atol=1e-6)
                assert dynamics.ended(parameters, fast) == dynamics.ended.py_func(parameters, plain)

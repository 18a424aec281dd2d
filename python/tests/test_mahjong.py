"""Mahjong from Python: tables, hands, contests and logs, and the environments that Gymnasium and PettingZoo check."""

import gzip
import json

import numpy as np
import pytest

import ingot
from ingot import mahjong
from test_errors import run_python


def play(table, choose):
    """Moves a table to its end, with an action of `choose(player, legal)` each time."""
    while not table.over:
        if table.round_over:
            table.next_round()
        for player in table.to_act:
            table.act(player, choose(player, table.legal(player)))


def first_that_ends(player, legal):
    return 43 if 43 in legal else legal[0] if legal[0] < 37 else legal[-1]


def test_a_table_plays_to_its_end_and_a_seed_repeats_it():
    table, again = mahjong.Table(seed=5, length="east"), mahjong.Table(seed=5, length="east")
    play(table, first_that_ends)
    play(again, first_that_ends)
    assert table.over and table.scores == again.scores and sum(table.scores) + 1000 * table.sticks == 100_000
    assert sorted(table.places) == [0, 1, 2, 3] and table.events() == again.events()
    assert table.events()[0]["type"] == "start_game" and table.events()[-1]["type"] == "end_game"
    assert "over" in repr(table)


def test_a_table_tells_each_player_what_it_may_know():
    table = mahjong.Table(seed=1)
    (dealer,) = table.to_act
    assert dealer == table.dealer == 0 and table.round == 0 and table.honba == 0 and table.tiles_left == 69
    assert table.observe(0).shape == (96, 34) and table.observe(0, context=False).shape == (85, 34)
    outlook = table.observe(0, outlook=True)
    assert outlook.shape == (121, 34) and (outlook[:96] == table.observe(0)).numpy().all()
    assert len(table.hand(0).translate(str.maketrans("", "", "mpsz"))) == 14
    seen = table.events(viewer=1)[1]["tehais"]
    assert set(seen[0]) == {"?"} and "?" not in seen[1]
    assert set(table.legal(0)) <= set(range(46)) and table.legal(1) == []
    assert table.describe(0, table.legal(0)[0]).startswith("discard")
    assert mahjong.ACTIONS[37] == "riichi" and len(mahjong.ACTIONS) == 46


def test_a_clone_goes_its_own_way():
    table = mahjong.Table(seed=2)
    copy = table.clone()
    copy.act(0, copy.legal(0)[0])
    assert len(copy.events()) > len(table.events()) and table.to_act == [0]


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: mahjong.Table(seed=1).act(0, 45), ingot.errors.IllegalAction),
        (lambda: mahjong.Table(seed=1).act(1, 0), ingot.errors.IllegalAction),
        (lambda: mahjong.Table(seed=1).act(7, 0), ingot.errors.InvalidConfig),
        (lambda: mahjong.Table(seed=1).act(0, 99), ingot.errors.IllegalAction),
        (lambda: mahjong.Table(seed=1).next_round(), ingot.errors.IllegalAction),
        (lambda: mahjong.Table("riichi"), ingot.errors.InvalidConfig),
        (lambda: mahjong.Table(length="long"), ingot.errors.InvalidConfig),
        (lambda: mahjong.score("11111m", "1m"), ingot.errors.InvalidHand),
        (lambda: mahjong.score("234m055p678s345s11z", "2m", ura="1m"), ingot.errors.InvalidConfig),
        (lambda: mahjong.score("234m055p678s345s11z", "2m", seat_wind=5), ingot.errors.InvalidConfig),
        (lambda: mahjong.score("11z", "1z", melds=["12m"]), ingot.errors.InvalidHand),
        (lambda: mahjong.shanten("123m"), ingot.errors.InvalidHand),
        (lambda: mahjong.arena(["rule-based"] * 3), ingot.errors.InvalidConfig),
        (lambda: mahjong.arena(["rule-based", "deep-blue"]), ingot.errors.InvalidConfig),
        (lambda: mahjong.arena(["rule-based", "tsumogiri"], walls=0), ingot.errors.InvalidConfig),
        (lambda: mahjong.Log("/nowhere/game.json"), ingot.errors.IoError),
        (lambda: ingot.rl.SeatGames("mahjong", 2, seat=4), ingot.errors.InvalidConfig),
        (lambda: ingot.rl.SeatGames("mahjong", 2, opponents="deep-blue"), ingot.errors.InvalidConfig),
        (lambda: ingot.rl.SeatGames("chess", 2), ingot.errors.InvalidConfig),
        (lambda: ingot.rl.SeatGames("mahjong", 2).step([0, 46]), ingot.errors.InvalidConfig),
        (lambda: ingot.rl.SeatGames("mahjong", 2).step([0]), ingot.errors.ShapeMismatch),
        (lambda: ingot.rl.SeatGames("mahjong", 2, seat=1, opponents=lambda seen, legal: legal.argmax(1) * 0 - 1), ingot.errors.InvalidConfig),
    ],
)
def test_what_cannot_be_says_why(call, error):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value)


def test_hands_are_counted():
    won = mahjong.score("234m055p678s345s11z", "2m", riichi=True, seat_wind=2)
    assert won.win and won.han == 2 and "riichi" in [name.lower() for name in won.yaku] and won.ron > 0
    dealer = mahjong.score("234m055p678s345s11z", "2m", riichi=True, seat_wind=1)
    assert dealer.ron > won.ron
    assert not mahjong.score("234m567p678s345s11z", "2m").win  # no yaku
    assert mahjong.score("22z", "2z", melds=["777z", "555z", "666z", "-1111m"], seat_wind=2).yakuman == 1
    far = mahjong.shanten("123m456p789s1234z")
    assert far["shanten"] == 2 and far["accepts"][0]["discard"] is None and "E" in far["accepts"][0]["kinds"]
    assert mahjong.shanten("123m456p789s11122z")["shanten"] == -1


def test_an_arena_counts_games_and_a_seed_repeats_it():
    report = mahjong.arena(["rule-based", "tsumogiri"], walls=3, length="east", seed=4)
    assert report["games"] == 12 and [e["name"] for e in report.entrants] == ["rule-based", "tsumogiri"]
    assert report.entrants[0]["place"][0] < report.entrants[1]["place"][0]
    assert report.tests[0]["first"] == "rule-based" and "rule-based" in repr(report) and "<table>" in report._repr_html_()
    again = mahjong.arena(["rule-based", "tsumogiri"], walls=3, length="east", seed=4)
    assert [e["place"] for e in again.entrants] == [e["place"] for e in report.entrants]


def test_a_game_comes_back_from_its_log(tmp_path):
    table = mahjong.Table(seed=9, length="east")
    play(table, first_that_ends)
    lines = "".join(json.dumps(event) + "\n" for event in table.events())
    path = tmp_path / "game.mjson.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    log = mahjong.Log(path, length="east")
    counts = log.replay()
    assert counts["over"] and counts["scores"] == table.scores and counts["rounds"] == log.rounds
    assert [event["type"] for event in log.events()].count("start_kyoku") == log.rounds
    path.write_text(lines.replace("dahai", "dahoi"))
    with pytest.raises(ingot.errors.FormatError):
        mahjong.Log(path)


def test_a_seat_of_many_games_is_moved_with_its_opponents():
    def played(opponents, steps=60):
        games = ingot.rl.SeatGames("mahjong", 8, seed=3, seat=2, opponents=opponents)
        total = np.zeros(8)
        for _ in range(steps):
            observations, legal = games.observe()
            assert (legal.numpy().sum(1) >= 1).all()
            rewards, ended = games.step(legal.numpy().argmax(1))
            total += rewards.numpy()
        return observations.numpy().copy(), total

    first, again = played("random"), played("random")
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    asked = []

    def first_legal(observations, legal):
        asked.append(legal.shape[0])
        assert observations.shape == (legal.shape[0], 96, 34)
        return legal.argmax(1)

    by_function, by_name = played(first_legal), played("rule-based")
    assert max(asked) > 1  # many games at once
    assert not np.array_equal(by_function[0], by_name[0])


def test_games_with_a_function_of_the_main_program_end_with_it():
    source = """
import ingot
def opponents(observations, legal):
    return legal.argmax(1)
games = ingot.rl.SeatGames("mahjong", 2, seat=1, opponents=opponents)
games.step(games.observe()[1].argmax(1))
"""
    result = run_python(source)
    assert (result.returncode, result.stderr) == (0, "")  # nanobind tells of what is left


def test_what_opponents_raise_leaves_the_call():
    calls = []

    def fail(observations, legal):
        calls.append(1)
        if len(calls) > 3:
            raise LookupError("enough")
        return legal.argmax(1)

    with pytest.raises(LookupError, match="enough"):
        games = ingot.rl.SeatGames("mahjong", 4, seat=1, opponents=fail)
        for _ in range(10):
            games.step(games.observe()[1].numpy().argmax(1))


def test_a_vector_environment_keeps_to_gymnasiums_spaces():
    env = mahjong.vector_env(6, seed=1, opponents="random")
    observation, info = env.reset(seed=7)
    assert env.observation_space.contains(observation) and info == {}
    again, _ = mahjong.vector_env(6, opponents="random").reset(seed=7)
    np.testing.assert_array_equal(observation["observation"], again["observation"])
    ends = 0
    for _ in range(400):
        actions = env.action_space.sample(mask=tuple(mask.astype(np.int8) for mask in observation["action_mask"]))
        observation, rewards, terminated, truncated, info = env.step(actions)
        assert env.observation_space.contains(observation) and env.action_space.contains(actions)
        assert rewards.shape == terminated.shape == truncated.shape == (6,) and rewards.dtype == np.float64
        assert terminated.dtype == truncated.dtype == bool and not truncated.any()
        assert ("final_obs" in info) == terminated.any()
        ends += terminated.sum()
    assert ends > 0
    with pytest.raises(ValueError, match="one seed"):
        env.reset(seed=[1, 2, 3, 4, 5, 6])
    env.close()


def test_gymnasiums_wrappers_take_the_vector_environment():
    import gymnasium

    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(mahjong.vector_env(4, opponents="tsumogiri"))
    observation, _ = env.reset(seed=1)
    for _ in range(20):
        observation, *_ = env.step(observation["action_mask"].argmax(1))


def test_pettingzoos_checkers_accept_both_environments():
    from pettingzoo.test import api_test, parallel_api_test

    api_test(mahjong.aec_env(), num_cycles=100)
    parallel_api_test(mahjong.parallel_env(), num_cycles=1500)


def test_agents_that_wait_may_do_nothing_else():
    env = mahjong.parallel_env(seed=1)
    observations, _ = env.reset(seed=1)
    decides = [agent for agent in env.agents if not observations[agent]["action_mask"][env.wait]]
    assert decides == ["player_0"]
    actions = {agent: env.wait for agent in env.agents}
    actions["player_0"] = int(observations["player_0"]["action_mask"].argmax())
    with pytest.raises(ValueError, match="player_2 does not decide"):
        env.step({**actions, "player_2": 0})
    with pytest.raises(ValueError, match="player_3 has no action"):
        env.step({agent: action for agent, action in actions.items() if agent != "player_3"})
    env.step(actions)

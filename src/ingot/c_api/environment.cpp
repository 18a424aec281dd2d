#include "ingot/c_api/environment.h"

#include "ingot/c_api/inner/handles.h"
#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/policy.h"
#include "ingot/mahjong/table.h"
#include "ingot/rl/named_environment.h"

using namespace ingot;
using namespace ingot::c_api;

struct IngotEnvironment : Object {
  static constexpr const char* kName = "environment";
  explicit IngotEnvironment(std::unique_ptr<Environment> e) : environment(std::move(e)) {}

  std::size_t games() const { return environment->games(); }
  std::size_t observation_size() const {
    return static_cast<std::size_t>(environment->spec().observation_size());
  }
  std::size_t actions() const { return static_cast<std::size_t>(environment->spec().actions); }
  /// [games, actions] of the position as it is.
  std::span<const float> legal() {
    if (!observed) {
      legal_actions.resize(games() * actions());
      observations.resize(games() * observation_size());
      environment->observe(observations, legal_actions);
      observed = true;
    }
    return legal_actions;
  }

  const std::unique_ptr<Environment> environment;
  std::vector<float> legal_actions, observations;
  bool observed = false;
};

struct IngotMahjong : Object {
  static constexpr const char* kName = "mahjong table";
  explicit IngotMahjong(const mahjong::Table& t) : table(t) {}
  mahjong::Table table;
};

namespace ingot::c_api {
namespace {

int player_arg(std::int32_t player) {
  if (player < 0 || player > 3)
    throw InvalidArgument("player", "is " + std::to_string(player) + "; there are 0 to 3");
  return player;
}

mahjong::Action action_arg(const mahjong::Table& table, std::int32_t player, std::int32_t action,
                           std::int32_t kan) {
  const mahjong::ActionList legal = mahjong::legal_actions(table, player_arg(player));
  INGOT_CHECK(
      action >= 0 && action < mahjong::kPolicyActions && ((mahjong::policy_mask(legal) >> action) & 1U) != 0,
      mahjong::IllegalAction("action " + std::to_string(action) + " is not legal for player " +
                             std::to_string(player) + " now"));
  if (kan < -1 || kan >= mahjong::kKinds)
    throw InvalidArgument("kan", "is " + std::to_string(kan) + "; kinds are 0 to 33, and -1 is any");
  return mahjong::policy_action(legal, action, kan < 0 ? mahjong::kNoTile : static_cast<mahjong::Kind>(kan));
}

void check_actions(IngotEnvironment& e, std::span<const std::int32_t> actions) {
  const auto legal = e.legal();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::int32_t action = actions[i];
    const bool exists = action >= 0 && static_cast<std::size_t>(action) < e.actions();
    INGOT_CHECK(exists && legal[i * e.actions() + static_cast<std::size_t>(action)] != 0,
                mahjong::IllegalAction("action " + std::to_string(action) + " is not legal in game " +
                                       std::to_string(i)));
  }
}

}  // namespace
}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_environment_open(const char* name, size_t games, uint64_t seed, IngotEnvironment** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_handle(
        std::make_shared<IngotEnvironment>(make_environment(string_arg(name, "name"), games, seed)));
  });
}

IngotStatus ingot_environment_close(IngotEnvironment* environment) {
  return call(__func__, [&] { close_handle(environment); });
}

IngotStatus ingot_environment_info(const IngotEnvironment* environment, IngotEnvironmentInfo* info,
                                   size_t size) {
  return call(__func__, [&] {
    const auto e = object_of(environment);
    const EnvironmentSpec& spec = e->environment->spec();
    const IngotEnvironmentInfo values{.games = e->games(),
                                      .players = spec.players,
                                      .actions = spec.actions,
                                      .observation_shape = spec.observation.data(),
                                      .observation_rank = static_cast<std::int32_t>(spec.observation.size()),
                                      .observation_size = e->observation_size()};
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_environment_players(IngotEnvironment* environment, int32_t* players) {
  return call(__func__, [&] {
    required(players, "players");
    const Use<IngotEnvironment> e(environment);
    for (std::size_t i = 0; i < e->games(); ++i) players[i] = e->environment->player(i);
  });
}

IngotStatus ingot_environment_observe(IngotEnvironment* environment, float* observations, float* legal) {
  return call(__func__, [&] {
    required(observations, "observations");
    required(legal, "legal");
    const Use<IngotEnvironment> e(environment);
    const std::span<float> actions(legal, e->games() * e->actions());
    e->environment->observe({observations, e->games() * e->observation_size()}, actions);
    e->legal_actions.assign(actions.begin(), actions.end());
    e->observed = true;
  });
}

IngotStatus ingot_environment_step(IngotEnvironment* environment, const int32_t* actions, float* rewards,
                                   uint8_t* ended) {
  return call(__func__, [&] {
    required(actions, "actions");
    required(rewards, "rewards");
    required(ended, "ended");
    const Use<IngotEnvironment> e(environment);
    const std::span<const std::int32_t> taken(actions, e->games());
    check_actions(*e, taken);
    e->observed = false;
    e->environment->step(taken,
                         {rewards, e->games() * static_cast<std::size_t>(e->environment->spec().players)},
                         {ended, e->games()});
  });
}

IngotStatus ingot_environment_state(IngotEnvironment* environment, void** state, size_t* bytes) {
  return call(__func__, [&] {
    auto& made = result(state, "state");
    auto& length = result(bytes, "bytes");
    const Use<IngotEnvironment> e(environment);
    const auto values = e->environment->state();
    made = give_bytes(values.data(), values.size());
    length = values.size();
  });
}

IngotStatus ingot_environment_restore(IngotEnvironment* environment, const void* state, size_t bytes) {
  return call(__func__, [&] {
    const Use<IngotEnvironment> e(environment);
    e->environment->restore(std::as_bytes(array_arg(static_cast<const char*>(state), bytes, "state")));
    e->observed = false;
  });
}

IngotStatus ingot_mahjong_open(const char* rules, uint64_t seed, IngotMahjong** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const mahjong::Rules chosen = mahjong::Rules::named(rules == nullptr ? "tenhou" : rules);
    made = open_handle(
        std::make_shared<IngotMahjong>(mahjong::start_game(chosen, mahjong::seed_from_number(seed))));
  });
}

IngotStatus ingot_mahjong_clone(IngotMahjong* table, IngotMahjong** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const Use<IngotMahjong> t(table);
    made = open_handle(std::make_shared<IngotMahjong>(t->table));
  });
}

IngotStatus ingot_mahjong_close(IngotMahjong* table) {
  return call(__func__, [&] { close_handle(table); });
}

IngotStatus ingot_mahjong_info(IngotMahjong* table, IngotMahjongInfo* info, size_t size) {
  return call(__func__, [&] {
    const Use<IngotMahjong> t(table);
    const mahjong::PublicState& pub = t->table.pub;
    IngotMahjongInfo values{.to_act = t->table.to_act(),
                            .round_over = pub.phase == mahjong::Phase::RoundOver ? 1 : 0,
                            .game_over = t->table.over() ? 1 : 0,
                            .round = pub.round,
                            .dealer = pub.dealer,
                            .honba = pub.honba,
                            .sticks = pub.sticks,
                            .tiles_left = pub.live_left,
                            .scores = {},
                            .places = {},
                            .points = {}};
    const mahjong::GameResult standing = mahjong::game_result(t->table);
    for (std::size_t i = 0; i < 4; ++i) {
      values.scores[i] = pub.seats[i].score;
      values.places[i] = standing.place[i];
      values.points[i] = standing.points[i];
    }
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_mahjong_legal(IngotMahjong* table, int32_t player, uint64_t* mask) {
  return call(__func__, [&] {
    auto& shown = result(mask, "mask");
    const Use<IngotMahjong> t(table);
    shown = mahjong::policy_mask(mahjong::legal_actions(t->table, player_arg(player)));
  });
}

IngotStatus ingot_mahjong_act(IngotMahjong* table, int32_t player, int32_t action, int32_t kan) {
  return call(__func__, [&] {
    const Use<IngotMahjong> t(table);
    mahjong::apply(t->table, player, action_arg(t->table, player, action, kan));
  });
}

IngotStatus ingot_mahjong_describe(IngotMahjong* table, int32_t player, int32_t action, char** text) {
  return call(__func__, [&] {
    auto& made = result(text, "text");
    const Use<IngotMahjong> t(table);
    made = give_text(to_string(action_arg(t->table, player, action, -1)));
  });
}

IngotStatus ingot_mahjong_next_round(IngotMahjong* table) {
  return call(__func__, [&] {
    const Use<IngotMahjong> t(table);
    mahjong::next_round(t->table);
  });
}

IngotStatus ingot_mahjong_observe(IngotMahjong* table, int32_t player, int32_t context, float* values,
                                  size_t capacity) {
  return call(__func__, [&] {
    const Use<IngotMahjong> t(table);
    INGOT_CHECK(context >= 0 && context <= 2,
                InvalidConfig("context", "is " + std::to_string(context) + ", expected 0, 1 or 2"));
    const mahjong::EncoderOptions options{.context = context != 0, .outlook = context == 2};
    const std::size_t needed = static_cast<std::size_t>(options.channels()) * mahjong::kKinds;
    INGOT_CHECK(capacity >= needed,
                DimensionMismatch("values holds " + std::to_string(capacity) +
                                  " numbers; an observation needs " + std::to_string(needed)));
    required(values, "values");
    mahjong::encode(mahjong::observe(t->table, player_arg(player)), {values, needed}, options);
  });
}

}  // extern "C"

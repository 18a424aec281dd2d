#include "ingot/rl/mahjong_game.h"

#include <array>
#include <bit>

#include "ingot/mahjong/policy.h"

namespace ingot {
namespace {

constexpr mahjong::EncoderOptions kEncoding{.context = true};
constexpr float kPointsOfReward = 10'000;

int first_to_act(const mahjong::Table& table) { return std::countr_zero(table.to_act()); }

std::uint64_t mask_of(const mahjong::Table& table, int player) {
  return mahjong::policy_mask(mahjong::legal_actions(table, player));
}

// And deals the next round, if that ends one.
void apply_index(mahjong::Table& table, int player, int index) {
  const mahjong::ActionList choices = mahjong::legal_actions(table, player);
  mahjong::apply_trusted(table, player, mahjong::policy_action(choices, index));
  if (table.pub.phase == mahjong::Phase::RoundOver) mahjong::next_round(table);
}

std::array<std::int32_t, 4> scores_of(const mahjong::Table& table) {
  std::array<std::int32_t, 4> scores{};
  for (std::size_t i = 0; i < 4; ++i) scores[i] = table.pub.seats[i].score;
  return scores;
}

}  // namespace

EnvironmentSpec MahjongGame::spec() {
  return {.players = 4,
          .actions = mahjong::kPolicyActions,
          .observation = {kEncoding.channels(), mahjong::kKinds}};
}

void MahjongGame::begin(Rng& random) {
  table_ = mahjong::start_game({}, mahjong::seed_from_number(random.next_u64()));
  player_ = first_to_act(table_);
}

void MahjongGame::observe(std::span<float> out) const {
  mahjong::encode(mahjong::observe(table_, player_), out, kEncoding);
}

void MahjongGame::legal(std::span<float> out) const {
  const std::uint64_t mask = mahjong::policy_mask(mahjong::legal_actions(table_, player_));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(mask >> i & 1);
}

bool MahjongGame::act(std::int32_t action, std::span<float> rewards) {
  const std::array<std::int32_t, 4> before = scores_of(table_);
  apply_index(table_, player_, action);
  for (; !table_.over(); apply_index(table_, player_, __builtin_ctzll(mask_of(table_, player_)))) {
    player_ = first_to_act(table_);
    if (std::popcount(mask_of(table_, player_)) > 1) break;
  }
  const std::array<std::int32_t, 4> after = scores_of(table_);
  for (std::size_t i = 0; i < 4; ++i) rewards[i] = static_cast<float>(after[i] - before[i]) / kPointsOfReward;
  return table_.over();
}

std::vector<std::int32_t> BuiltInOpponent::decide(const Environment& /*environment*/,
                                                  const OpponentRows& rows) {
  std::vector<std::int32_t> actions;
  actions.reserve(rows.games.size());
  for (std::size_t i = 0; i < rows.games.size(); ++i) {
    const mahjong::Table& table = batch_.game(rows.games[i]).table();
    const int player = batch_.player(rows.games[i]);
    // A player of this decision alone, so that nothing but the games has to be saved.
    const auto selector = make_(static_cast<std::uint64_t>(rows.uniform[i] * 0x1p24));
    actions.push_back(mahjong::policy_index(
        selector->select(mahjong::observe(table, player), mahjong::legal_actions(table, player))));
  }
  return actions;
}

}  // namespace ingot

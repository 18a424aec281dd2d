#include "ingot/rl/mahjong_game.h"

#include <array>
#include <bit>

#include "ingot/mahjong/policy.h"

namespace ingot {
namespace {

constexpr mahjong::EncoderOptions kEncoding{.context = true};
constexpr float kPointsOfReward = 10'000;

int first_to_act(const mahjong::Table& table) { return std::countr_zero(table.to_act()); }

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
  const mahjong::ActionList choices = mahjong::legal_actions(table_, player_);
  mahjong::apply_trusted(table_, player_, mahjong::policy_action(choices, action));
  if (table_.pub.phase == mahjong::Phase::RoundOver) mahjong::next_round(table_);
  const std::array<std::int32_t, 4> after = scores_of(table_);
  for (std::size_t i = 0; i < 4; ++i) rewards[i] = static_cast<float>(after[i] - before[i]) / kPointsOfReward;
  if (table_.over()) return true;
  player_ = first_to_act(table_);
  return false;
}

}  // namespace ingot

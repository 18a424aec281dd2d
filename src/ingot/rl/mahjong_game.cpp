#include "ingot/rl/mahjong_game.h"

#include <algorithm>
#include <array>
#include <bit>

#include "ingot/base/parallel.h"
#include "ingot/mahjong/oracle.h"
#include "ingot/mahjong/policy.h"

namespace ingot {
namespace {

constexpr mahjong::EncoderOptions kEncoding{.context = true};
constexpr float kPointsOfReward = 10'000;

int first_to_act(const mahjong::Table& table) { return std::countr_zero(table.to_act()); }

std::uint64_t mask_of(const mahjong::Table& table, int player) {
  return mahjong::policy_mask(mahjong::legal_actions(table, player));
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
          .observation = {kEncoding.channels(), mahjong::kKinds},
          .hidden = {mahjong::kOracleChannels, mahjong::kKinds}};
}

void MahjongGame::begin(Rng& random) {
  table_ = mahjong::start_game({}, mahjong::seed_from_number(random.next_u64()));
  player_ = first_to_act(table_);
}

// And deals the next round, if that ends one.
void MahjongGame::apply_index(int player, int index) {
  const bool may_be_ron = table_.pub.phase == mahjong::Phase::Reaction;
  mahjong::Events told;
  const mahjong::ActionList choices = mahjong::legal_actions(table_, player);
  mahjong::apply_trusted(table_, player, mahjong::policy_action(choices, index),
                         may_be_ron ? &told : nullptr);
  for (const mahjong::Event& event : told)
    if (event.type == mahjong::EventType::Hora && event.target != event.actor)
      dealt_in_ |= static_cast<std::uint8_t>(1U << event.target);
  const bool over = table_.over();
  if (over || table_.pub.phase == mahjong::Phase::RoundOver) ++rounds_;
  if (!over && table_.pub.phase == mahjong::Phase::RoundOver) mahjong::next_round(table_);
}

void MahjongGame::last_costs(std::span<float> costs, float& occasions) const {
  for (std::size_t p = 0; p < costs.size(); ++p) costs[p] = static_cast<float>(dealt_in_ >> p & 1);
  occasions = rounds_;
}

void MahjongGame::observe(std::span<float> out) const { observe_as(kEncoding, out); }

void MahjongGame::observe_as(const mahjong::EncoderOptions& encoding, std::span<float> out) const {
  mahjong::encode(mahjong::observe(table_, player_), out, encoding);
}

void MahjongGame::observe_hidden(std::span<float> out) const { mahjong::encode_oracle(table_, player_, out); }

void MahjongGame::legal(std::span<float> out) const {
  const std::uint64_t mask = mahjong::policy_mask(mahjong::legal_actions(table_, player_));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(mask >> i & 1);
}

bool MahjongGame::act(std::int32_t action, std::span<float> rewards) {
  const std::array<std::int32_t, 4> before = scores_of(table_);
  rounds_ = dealt_in_ = 0;
  apply_index(player_, action);
  for (; !table_.over(); apply_index(player_, __builtin_ctzll(mask_of(table_, player_)))) {
    player_ = first_to_act(table_);
    if (std::popcount(mask_of(table_, player_)) > 1) break;
  }
  const std::array<std::int32_t, 4> after = scores_of(table_);
  for (std::size_t i = 0; i < 4; ++i) rewards[i] = static_cast<float>(after[i] - before[i]) / kPointsOfReward;
  return table_.over();
}

MahjongGames::MahjongGames(const GameShare& share, std::uint64_t seed,
                           const mahjong::EncoderOptions& encoding)
    : GameBatch<MahjongGame>(share, seed), encoding_(encoding), spec_(MahjongGame::spec()) {
  spec_.observation = {encoding.channels(), mahjong::kKinds};
}

void MahjongGames::observe_some(std::span<const std::uint8_t> wanted, std::span<float> observations,
                                std::span<float> legal) const {
  std::ranges::fill(legal, 0.0F);
  const std::size_t size = observations.size() / games(), actions = legal.size() / games();
  for_each_game([&](std::size_t i) {
    if (wanted.empty() || wanted[i] != 0) game(i).observe_as(encoding_, observations.subspan(i * size, size));
    game(i).legal(legal.subspan(i * actions, actions));
  });
}

std::vector<std::int32_t> BuiltInOpponent::decide(const Environment& /*environment*/,
                                                  const OpponentRows& rows) {
  std::vector<std::int32_t> actions(rows.games.size());
  constexpr std::int64_t kGrain = 8, kPiece = 2;
  parallel_share(std::ssize(actions), kGrain, kPiece, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const mahjong::Table& table = batch_.game(rows.games[i]).table();
      const int player = batch_.player(rows.games[i]);
      // A player of this decision alone, so that nothing but the games has to be saved.
      const auto selector = make_(static_cast<std::uint64_t>(rows.uniform[i] * 0x1p24));
      actions[i] = mahjong::policy_index(
          selector->select(mahjong::observe(table, player), mahjong::legal_actions(table, player)));
    }
  });
  return actions;
}

}  // namespace ingot

#include "ingot/rl/mahjong_review.h"

#include <algorithm>
#include <cmath>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/mahjong/policy.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/reduce.h"
#include "ingot/rl/mahjong_batch.h"
#include "ingot/rl/masked_policy.h"

namespace ingot {
namespace {

constexpr std::size_t kReviewBatch = 256;
constexpr float kPointsOfValue = 10'000;

std::vector<float> floats_of(const Tensor& x) { return to(to(x, DType::f32), kCpu).to_vector<float>(); }

// One row of what the heads say, as people read it.
void read_heads(std::span<const float> log_policy, std::span<const float> order,
                std::span<const float> tenpai, std::span<const float> danger, std::uint64_t mask,
                ReviewedDecision& decision) {
  for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
    const int action = __builtin_ctzll(rest);
    const float log_probability = log_policy[static_cast<std::size_t>(action)];
    INGOT_CHECK(std::isfinite(log_probability),
                NonFinite("the policy", "its log-probabilities are not finite"));
    decision.policy.emplace_back(action, std::exp(log_probability));
  }
  std::ranges::stable_sort(decision.policy, std::ranges::greater(), &std::pair<int, float>::second);
  for (int i = 0; i < mahjong::kOrders; ++i) {
    const std::array<int, 4> ends = mahjong::order_of(i);
    const auto place = static_cast<std::size_t>(std::ranges::find(ends, 0) - ends.begin());
    decision.places[place] += order[static_cast<std::size_t>(i)];
  }
  std::ranges::copy(tenpai, decision.tenpai.begin());
  for (std::size_t kind = 0; kind < mahjong::kKinds; ++kind) {
    float safe = 1;
    for (std::size_t opponent = 0; opponent < 3; ++opponent)
      safe *= 1 - danger[opponent * mahjong::kKinds + kind];
    decision.danger[kind] = 1 - safe;
  }
}

// Frames of a log, and its decisions without the network's opinion.
GameReview frames_of(const mahjong::GameLog& log) {
  GameReview review{.source = log.source, .names = log.names, .rounds = log.rounds};
  int round = -1;
  std::uint8_t number = 255;
  std::uint16_t honba = 0;
  replay(log, [&](const mahjong::Table& table, int player, const mahjong::Action& action) {
    if (table.pub.round != number || table.pub.honba != honba) ++round;
    number = table.pub.round;
    honba = table.pub.honba;
    const std::uint64_t mask = mahjong::policy_mask(legal_actions(table, player));
    const bool chooses = (mask & (mask - 1)) != 0;
    if (!chooses && action.type == mahjong::ActionType::Pass) return;
    ReviewFrame& frame = review.frames.emplace_back(
        ReviewFrame{.table = table, .player = player, .action = action, .round = round});
    if (!chooses) return;
    frame.decision = std::ssize(review.decisions);
    review.decisions.push_back({.seat = player,
                                .round = round,
                                .frame = review.frames.size() - 1,
                                .chosen = mahjong::policy_index(action)});
  });
  return review;
}

void ask(const DualPoolNet& net, const mahjong::EncoderOptions& encoding,
         const std::vector<ReviewFrame>& frames, std::span<ReviewedDecision> decisions) {
  std::vector<mahjong::Observation> observations;
  std::vector<const mahjong::Observation*> seen;
  std::vector<std::uint64_t> masks;
  observations.reserve(decisions.size());
  for (const ReviewedDecision& d : decisions) {
    observations.push_back(observe(frames[d.frame].table, d.seat));
    masks.push_back(mahjong::policy_mask(legal_actions(observations.back())));
    seen.push_back(&observations.back());
  }
  const NoGrad no_grad;
  const MahjongInputs inputs = mahjong_inputs(seen, masks, encoding, net.stem.weight.value.device());
  const DualPoolOutput output = net(inputs.observation, inputs.rank_context);
  const std::vector<float> policy = floats_of(masked_log_softmax(output.policy, inputs.legal)),
                           value = floats_of(output.value), order = floats_of(softmax(output.rank)),
                           tenpai = floats_of(sigmoid(output.tenpai)),
                           danger = floats_of(sigmoid(output.danger));
  const auto row = [](const std::vector<float>& all, std::size_t i, std::size_t width) {
    return std::span(all).subspan(i * width, width);
  };
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    decisions[i].value = value[i] * kPointsOfValue;
    read_heads(row(policy, i, mahjong::kPolicyActions), row(order, i, mahjong::kOrders), row(tenpai, i, 3),
               row(danger, i, std::size_t{3} * mahjong::kKinds), masks[i], decisions[i]);
  }
}

}  // namespace

double ReviewedDecision::cost() const {
  const auto taken = std::ranges::find(policy, chosen, &std::pair<int, float>::first);
  return static_cast<double>(policy.front().second - (taken == policy.end() ? 0 : taken->second));
}

std::vector<std::size_t> GameReview::mistakes(int seat) const {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < decisions.size(); ++i)
    if (decisions[i].seat == seat && !decisions[i].agrees()) list.push_back(i);
  std::ranges::stable_sort(list, std::ranges::greater(), [&](std::size_t i) { return decisions[i].cost(); });
  return list;
}

GameReview review_game(const mahjong::GameLog& log, const DualPoolNet& net, const std::string& player) {
  const mahjong::EncoderOptions encoding = mahjong_encoding(net.config, player);
  GameReview review = frames_of(log);
  review.player = player;
  const std::span<ReviewedDecision> all(review.decisions);
  for (std::size_t first = 0; first < all.size(); first += kReviewBatch)
    ask(net, encoding, review.frames, all.subspan(first, std::min(kReviewBatch, all.size() - first)));
  return review;
}

}  // namespace ingot

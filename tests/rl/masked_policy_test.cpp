#include "ingot/rl/masked_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

constexpr float kInfiniteLogit = std::numeric_limits<float>::infinity();
constexpr std::int64_t kMaskedRows = 256, kMaskedActions = 46;

// What a network may answer, ordinary or not.
float logit(int regime, Rng& random) {
  const auto normal = [&](double scale) { return static_cast<float>(random.normal() * scale); };
  switch (regime) {
    case 0:
      return normal(1);
    case 1:
      return normal(40);  // one action has nearly all of the probability
    case 2:
      return normal(1e29);
    case 3:
      return static_cast<float>(static_cast<int>(random.below(2001)) - 1000) * 1e-43F;  // denormal
    case 4:
      return random.below(2) == 0 ? 3e38F : -3e38F;  // their difference is no f32
    case 5:
      return random.below(3) == 0 ? -kInfiniteLogit : normal(3);
    default:
      return -0.0F;
  }
}
constexpr std::uint64_t kRegimes = 7;

float any_value(Rng& random) {
  constexpr std::array<float, 6> kAny = {NAN, kInfiniteLogit, -kInfiniteLogit, 3e38F, -3e38F, 1e-42F};
  return kAny[random.below(kAny.size())];
}

struct MaskedRows {
  std::vector<float> logits, legal;
};

// MaskedRows with 1 to 46 legal actions, every eighth with a lone one. The illegal ones have any logits. Of
// the legal ones at least one is finite.
MaskedRows random_masked_rows(Rng& random) {
  MaskedRows rows;
  for (std::int64_t row = 0; row < kMaskedRows; ++row) {
    const int regime = static_cast<int>(random.below(kRegimes));
    const std::uint64_t lone = random.below(kMaskedActions), share = row % 8 == 0 ? 0 : 1 + random.below(46);
    for (std::uint64_t action = 0; action < kMaskedActions; ++action) {
      const bool legal = action == lone || random.below(kMaskedActions) < share;
      float value = legal ? logit(regime, random) : any_value(random);
      if (action == lone && std::isinf(value)) value = 0;
      rows.legal.push_back(legal ? 1.0F : 0.0F);
      rows.logits.push_back(value);
    }
  }
  return rows;
}

// The first, the last, and those in between: exactly at a bound of the probabilities, too.
double draw_of(int number, std::span<const float> log_p, std::span<const float> legal, Rng& random) {
  constexpr double kLast = 1 - 0x1.0p-53;
  if (number == 0) return 0;
  if (number == 1) return kLast;
  if (number != 2) return static_cast<double>(uniform_from_bits(random.next_u32()));
  double passed = 0;
  const std::uint64_t until = random.below(kMaskedActions);
  for (std::size_t i = 0; i <= until; ++i)
    if (legal[i] != 0) passed += std::exp(static_cast<double>(log_p[i]));
  return std::min(passed, kLast);
}

class SampleAction : public ::testing::TestWithParam<DType> {};

// Five million draws of each dtype.
TEST_P(SampleAction, IsNeverIllegalWhateverMasksAndLogits) {
  constexpr int kDraws = 100, kBatches = 5'000'000 / (kDraws * static_cast<int>(kMaskedRows)) + 1;
  Rng random(RngKey{.seed = 42, .stream = static_cast<std::uint64_t>(GetParam())});
  std::int64_t draws = 0, illegal = 0, impossible = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    const MaskedRows rows = random_masked_rows(random);
    const Tensor logits = to(Tensor::from(rows.logits, {kMaskedRows, kMaskedActions}), GetParam());
    const std::vector<float> all =
        masked_log_softmax(logits, Tensor::from(rows.legal, {kMaskedRows, kMaskedActions}))
            .to_vector<float>();
    for (std::size_t row = 0; row < static_cast<std::size_t>(kMaskedRows); ++row) {
      const auto log_p = std::span(all).subspan(row * kMaskedActions, kMaskedActions);
      const auto legal = std::span(rows.legal).subspan(row * kMaskedActions, kMaskedActions);
      const auto check = [&](std::int32_t action) {
        illegal += legal[static_cast<std::size_t>(action)] == 0 ? 1 : 0;
        impossible += std::isinf(log_p[static_cast<std::size_t>(action)]) ? 1 : 0;
      };
      check(best_action(log_p, legal));
      for (int draw = 0; draw < kDraws; ++draw, ++draws)
        check(sample_action(log_p, legal, draw_of(draw, log_p, legal, random)));
    }
  }
  EXPECT_GE(draws, 5'000'000);
  EXPECT_EQ(illegal, 0);
  EXPECT_EQ(impossible, 0);
}

INSTANTIATE_TEST_SUITE_P(DTypes, SampleAction, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& one) { return std::string(name(one.param)); });

TEST(MaskedPolicy, ALegalLogitThatIsNoNumberIsRefusedByName) {
  const Tensor legal = Tensor::from(std::vector<float>{1, 1, 0}, {1, 3});
  const std::vector<float> may = {1, 1, 0};
  const std::vector<std::vector<float>> refused = {
      {NAN, 0, 0}, {0, kInfiniteLogit, 0}, {-kInfiniteLogit, -kInfiniteLogit, 5}};
  for (const std::vector<float>& logits : refused) {
    const std::vector<float> log_p =
        masked_log_softmax(Tensor::from(logits, {1, 3}), legal).to_vector<float>();
    for (const auto& decide :
         {+[](std::span<const float> p, std::span<const float> l) { return sample_action(p, l, 0.5); },
          +[](std::span<const float> p, std::span<const float> l) { return best_action(p, l); }}) {
      const std::string message = test::message_of<NonFinite>([&] { decide(log_p, may); });
      EXPECT_NE(message.find("the policy"), std::string::npos) << message;
    }
  }
}

TEST(MaskedPolicy, ALegalActionOfProbabilityZeroIsLeftOut) {
  const std::vector<float> may = {1, 1, 1}, log_p = {-kInfiniteLogit, 0, -kInfiniteLogit};
  for (const double uniform : {0.0, 0.5, 0.999999}) EXPECT_EQ(sample_action(log_p, may, uniform), 1);
  EXPECT_EQ(best_action(log_p, may), 1);
}

}  // namespace
}  // namespace ingot

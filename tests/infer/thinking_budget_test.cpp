#include "ingot/infer/thinking_budget.h"

#include <algorithm>

#include "tests/infer/scripted_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/rng.h"
#include "ingot/infer/session.h"

namespace ingot::infer {
namespace {

using Tokens = std::vector<std::int32_t>;

std::size_t position_of(const Tokens& tokens, const Tokens& marker, std::size_t from) {
  const auto found = std::search(tokens.begin() + static_cast<std::ptrdiff_t>(from), tokens.end(),
                                 marker.begin(), marker.end());
  return static_cast<std::size_t>(found - tokens.begin());
}

TEST(ThinkingBudget, NoThoughtsAreLongerWhateverIsDrawn) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const auto marker = [&](std::int32_t first, std::uint64_t most) {
      Tokens tokens{first};  // which nothing else begins with
      for (std::uint64_t i = rng.below(most); i > 0; --i)
        tokens.push_back(static_cast<std::int32_t>(rng.below(3)));
      return tokens;
    };
    ThinkingBudget budget{.tokens = static_cast<std::int64_t>(rng.below(9)),
                          .begin = marker(8, 3),
                          .end = marker(9, 3),
                          .begun = rng.below(2) == 0};
    if (rng.below(3) == 0) {  // a word of its own first
      budget.closing = {7};
      budget.closing.insert(budget.closing.end(), budget.end.begin(), budget.end.end());
    }
    ThinkingGuide guide(budget);
    Tokens tokens = budget.begun ? budget.begin : Tokens{};
    for (int i = 0; i < 200; ++i) {
      const std::int32_t any = rng.below(4) == 0 ? 8 + static_cast<std::int32_t>(rng.below(2))
                                                 : static_cast<std::int32_t>(rng.below(4));
      tokens.push_back(guide.forced().value_or(any));
      guide.take(tokens.back());
    }
    for (std::size_t at = position_of(tokens, budget.begin, 0); at < tokens.size();) {
      at += budget.begin.size();
      const std::size_t end = position_of(tokens, budget.end, at);
      const std::size_t most = static_cast<std::size_t>(budget.tokens) + budget.closing.size() + 1;
      if (end < tokens.size()) {
        EXPECT_LE(end - at, most) << seed;
        at = position_of(tokens, budget.begin, end + budget.end.size());
      } else {
        EXPECT_LE(tokens.size() - at, most + budget.end.size()) << seed;
        at = tokens.size();
      }
    }
  }
}

TEST(ThinkingBudget, CutsAtTheTokenAndGoesOnWithAMarkerThatHasBegun) {
  const auto written = [](ThinkingBudget budget, const Tokens& wanted) {
    ThinkingGuide guide(std::move(budget));
    Tokens tokens;
    for (const std::int32_t token : wanted) {
      tokens.push_back(guide.forced().value_or(token));
      guide.take(tokens.back());
    }
    return tokens;
  };
  const ThinkingBudget three{.tokens = 3, .begin = {8}, .end = {9, 5}};
  EXPECT_EQ(written(three, {1, 8, 1, 2, 3, 4, 4, 4}), (Tokens{1, 8, 1, 2, 3, 9, 5, 4}));
  EXPECT_EQ(written(three, {1, 8, 1, 2, 9, 4, 4, 4}), (Tokens{1, 8, 1, 2, 9, 5, 4, 4}));
  EXPECT_EQ(written(three, {8, 1, 9, 5, 4, 4, 4, 4}), (Tokens{8, 1, 9, 5, 4, 4, 4, 4}));
  EXPECT_EQ(written(three, {8, 1, 9, 5, 8, 1, 1, 1, 1, 1}), (Tokens{8, 1, 9, 5, 8, 1, 1, 1, 9, 5}));
  EXPECT_EQ(written({.tokens = 0, .begin = {8}, .end = {9}, .begun = true}, {1, 1, 1}), (Tokens{9, 1, 1}));
  EXPECT_EQ(written({.tokens = 1, .begin = {8}, .end = {9}, .closing = {7, 9}}, {8, 1, 1, 1, 1}),
            (Tokens{8, 1, 7, 9, 1}));
}

// Drafts, samplers and grammars work beside it.
TEST(ThinkingBudget, SpeculationWritesTheSameTokens) {
  const test::TemporaryDirectory folder;
  Session session({.model = test::write_scripted_model(folder.path(), {})});
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Request request{.prompt = {2, 5, 6, 5, 6},
                    .max_tokens = 60,
                    .sampling = {.temperature = seed % 2 == 0 ? 0.0 : 2.0, .seed = seed},
                    .thinking = {.tokens = 7, .begin = {5}, .end = {9, 5}, .begun = true}};
    const Tokens alone = generate(session.model(), request).tokens;
    EXPECT_EQ(alone[7], 9);
    EXPECT_EQ(alone[8], 5);
    request.speculate = 4;
    EXPECT_EQ(generate(session.model(), request).tokens, alone);
  }
}

}  // namespace
}  // namespace ingot::infer

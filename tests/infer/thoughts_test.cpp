#include <gtest/gtest.h>

#include "ingot/grammar/token_set.h"
#include "ingot/infer/constraint.h"

namespace ingot::infer {
namespace {

// Tokens: those of thoughts, line breaks, and single letters. 0 ends a text.
class Thoughts : public ::testing::Test {
 protected:
  std::vector<std::string> spellings_{"\xFF<eos>", "<think>", "</think>", "\n",     "\n\n",
                                      "a",         "b",       "</",       "think>", "think>a"};
  grammar::Vocabulary vocabulary_{spellings_};

  GrammarGuide guide(grammar::Thoughts thoughts, const std::string& pattern = "ab") const {
    const auto described = grammar::from_regex(vocabulary_, pattern);
    return {std::make_shared<const grammar::Grammar>(described->program(), std::move(thoughts)), {0}};
  }
  std::vector<std::int32_t> allowed(GrammarGuide& guide) const {
    std::vector<std::int32_t> ids;
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(spellings_.size()); ++id)
      if (guide.allowed().has(id)) ids.push_back(id);
    return ids;
  }
};
using Ids = std::vector<std::int32_t>;

TEST_F(Thoughts, AreFreeAndTheTextBeginsBehindThem) {
  GrammarGuide after = guide({"<think>", "</think>"});
  EXPECT_EQ(allowed(after), (Ids{1, 5}));  // think, or begin at once
  after.take(1);
  EXPECT_EQ(allowed(after), (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9}));  // but not end
  for (const std::int32_t id : {6, 6, 3, 2}) after.take(id);
  EXPECT_EQ(allowed(after), (Ids{3, 4, 5}));
  after.take(4);
  after.take(5);
  EXPECT_EQ(allowed(after), (Ids{6}));
  EXPECT_FALSE(after.complete());
  after.take(6);
  EXPECT_TRUE(after.complete());
}

TEST_F(Thoughts, ThatThePromptHasBegunGoOnAndAMarkerInPiecesEndsThem) {
  GrammarGuide begun = guide({"<think>", "</think>", true});
  EXPECT_EQ(allowed(begun).size(), 9U);
  begun.take(5);
  begun.take(7);
  EXPECT_EQ(allowed(begun), (Ids{1, 2, 3, 4, 5, 6, 7, 8}));  // no token that runs on into the text
  begun.take(8);
  EXPECT_EQ(allowed(begun), (Ids{3, 4, 5}));
}

TEST_F(Thoughts, WithoutThemTheTextBeginsAtOnce) {
  GrammarGuide plain = guide({});
  EXPECT_EQ(allowed(plain), (Ids{5}));
  EXPECT_THROW(plain.take(1), std::exception);
}

}  // namespace
}  // namespace ingot::infer

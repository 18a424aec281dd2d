#include "tests/grammar/support.h"
#include <gtest/gtest.h>

namespace ingot::grammar {
namespace {

using test::small_vocabulary;

// The mask by trying each token on a copy.
std::vector<bool> tried(const Matcher& matcher) {
  std::vector<bool> allowed;
  for (std::int32_t id = 0; id < small_vocabulary().trie().vocab_size(); ++id) {
    Matcher copy = matcher;
    allowed.push_back(copy.accept(id));
  }
  return allowed;
}

// Grammars that end terminals within tokens, count, intersect, recurse, and are ambiguous.
std::vector<GrammarPtr> grammars() {
  const Vocabulary& v = small_vocabulary();
  return {from_json_schema(
              v, R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},"value":{}}})"),
          from_json_schema(
              v, R"({"type":"array","items":{"type":["string","integer"],"pattern":"^a","maxLength":40}})"),
          from_gbnf(v, "root ::= (\"ab\" | \"a\" root? \"b\")+ \"c\"*"),
          from_regex(v, "(?:ab|a|b\"?){3,40}é?"),
          from_lark(v, "start: start \",\" NAME | NAME\nNAME: /[a-z]+/\n%ignore \" \"")};
}

TEST(Matcher, TheMaskHoldsExactlyTheTokensThatAreAccepted) {
  std::mt19937_64 random(3);
  for (const GrammarPtr& grammar : grammars()) {
    Matcher matcher(grammar);
    TokenMask mask(small_vocabulary().trie().vocab_size());
    for (int step = 0; step < 12 && matcher.extends(); ++step) {
      matcher.fill(mask);
      const std::vector<bool> wanted = tried(matcher);
      std::vector<std::int32_t> allowed;
      for (std::int32_t id = 0; id < mask.size(); ++id) {
        ASSERT_EQ(mask.has(id), wanted[static_cast<std::size_t>(id)])
            << "token " << id << " at step " << step;
        if (mask.has(id)) allowed.push_back(id);
      }
      ASSERT_FALSE(allowed.empty());
      ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
    }
  }
}

TEST(Matcher, EveryPrefixOfWhatItWritesLeadsToAnEnd) {
  std::mt19937_64 random(4);
  for (const GrammarPtr& grammar : grammars()) {
    for (int i = 0; i < 3; ++i) {
      const std::string text = test::sample(grammar, small_vocabulary(), random, 150);
      EXPECT_FALSE(text.starts_with("<stuck>") || text.starts_with("<refused>")) << text;
    }
  }
}

TEST(Matcher, RollbackAndCopiesGoTheirOwnWays) {
  Matcher matcher(from_gbnf(small_vocabulary(), "root ::= \"(\" root \")\" | \"x\""));
  ASSERT_TRUE(matcher.accept_text("(("));
  Matcher copy = matcher;
  EXPECT_FALSE(matcher.accept(')'));
  ASSERT_TRUE(matcher.accept('x'));
  ASSERT_TRUE(matcher.accept_text("))"));
  EXPECT_TRUE(matcher.finished());
  EXPECT_FALSE(matcher.extends());
  EXPECT_FALSE(copy.finished());
  EXPECT_TRUE(copy.accept('('));
  matcher.rollback(2);
  EXPECT_EQ(matcher.length(), 1U);
  EXPECT_TRUE(matcher.accept('x'));
}

TEST(Matcher, CharactersMayComeByteByByte) {
  Matcher matcher(from_regex(small_vocabulary(), "[é日]+"));
  TokenMask mask(small_vocabulary().trie().vocab_size());
  for (const char byte : std::string("é日")) {
    matcher.fill(mask);
    EXPECT_TRUE(mask.has(static_cast<unsigned char>(byte)));
    ASSERT_TRUE(matcher.accept(static_cast<unsigned char>(byte)));
  }
  EXPECT_TRUE(matcher.finished());
  matcher.fill(mask);
  EXPECT_FALSE(mask.has('a'));
  EXPECT_FALSE(mask.has(0xFF));
}

TEST(Matcher, LongTextsOfRecursiveGrammarsKeepSmall) {
  Matcher matcher(from_json_schema(small_vocabulary(), R"({"type":"array","items":{"type":"integer"}})"));
  ASSERT_TRUE(matcher.accept_text("[1"));
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(matcher.accept_text(",1"));
  ASSERT_TRUE(matcher.accept_text("]"));
  EXPECT_TRUE(matcher.finished());
}

}  // namespace
}  // namespace ingot::grammar

#include "tests/grammar/support.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot::grammar {
namespace {

using test::accepts;
using test::small_vocabulary;

GrammarPtr gbnf(std::string_view source) { return from_gbnf(small_vocabulary(), source); }
GrammarPtr lark(std::string_view source) { return from_lark(small_vocabulary(), source); }
GrammarPtr regex(std::string_view pattern) { return from_regex(small_vocabulary(), pattern); }

template <class F>
std::string message_of(F action) {
  try {
    action();
  } catch (const InvalidConfig& error) {
    return error.what();
  }
  return "taken";
}

TEST(RegexGrammar, MatchesTheWholeText) {
  struct Case {
    const char* pattern;
    std::vector<const char*> accepted, refused;
  };
  const std::vector<Case> cases = {
      {"a+b?", {"a", "aab"}, {"", "b", "aabb", "xa"}},
      {"(?:foo|ba[rz]){2}", {"foobar", "bazfoo"}, {"foo", "barfoobaz"}},
      {"^[^aeiou\\s]{1,3}$", {"xyz", "日本"}, {"a", "x y", "wxyz"}},
      {"\\d{3}-\\d{4}|none", {"555-1234", "none"}, {"5555", "555-12345"}},
      {"\\p{Lu}\\p{Ll}*", {"Über", "A"}, {"über", "AB"}},
      {"(?i)yes|no", {"YES", "nO"}, {"maybe"}},
      {"[\\w.-]+@x\\.(com|org)", {"a.b-c@x.com"}, {"@x.com", "a@xxcom"}},
      {"(?<year>\\d{4})(?P<rest>-\\d\\d){1,2}", {"2024-01", "2024-01-31"}, {"2024"}},
      {".{2}", {"ab", "é日"}, {"a", "abc", "a\n"}},
      {"\\u00e9\\x41\\u{1F600}", {"éA😀"}, {"eA"}},
      {"(?!ab)[a-c]{2}", {"ba", "aa"}, {"ab"}},
      {"[]a", {}, {"a"}},
  };
  for (const Case& each : cases) {
    if (each.accepted.empty()) {
      EXPECT_NE(message_of([&] { regex(each.pattern); }), "taken");
      continue;
    }
    const GrammarPtr grammar = regex(each.pattern);
    for (const char* text : each.accepted) EXPECT_TRUE(accepts(grammar, text)) << each.pattern << " " << text;
    for (const char* text : each.refused) EXPECT_FALSE(accepts(grammar, text)) << each.pattern << " " << text;
  }
}

TEST(RegexGrammar, NamesWhatItDoesNotSupport) {
  for (const char* pattern :
       {"(a", "a)", "[a", "a{3,2}", "(a)\\1", "(?<=a)b", "\\bx", "*a", "a\\", "\\xZZ"}) {
    const std::string message = message_of([&] { regex(pattern); });
    EXPECT_NE(message.find("byte"), std::string::npos) << pattern << ": " << message;
  }
}

TEST(ChoiceGrammar, TakesOneOfTheTexts) {
  const std::vector<std::string> texts{"positive", "negative", "positively"};
  const GrammarPtr grammar = from_choice(small_vocabulary(), texts);
  for (const std::string& text : texts) EXPECT_TRUE(accepts(grammar, text));
  EXPECT_FALSE(accepts(grammar, "pos"));
  EXPECT_NE(message_of([] { from_choice(small_vocabulary(), {}); }), "taken");
}

TEST(GbnfGrammar, ReadsTheDialectOfLlamaCpp) {
  const GrammarPtr arithmetic = gbnf(R"G(
# arithmetic
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)G");
  EXPECT_TRUE(accepts(arithmetic, "x +(y*2)= 3\n"));
  EXPECT_FALSE(accepts(arithmetic, "x +(y*2= 3\n"));
  const GrammarPtr others =
      gbnf("root ::= [^\\x00-\\x1f\"]{2,3} \"\\u00e9\" | item{2} |\n  \"q\"?\nitem ::= \"a\" | \"b\"");
  for (const char* text : {"xyé", "xyzé", "ab", "", "q"}) EXPECT_TRUE(accepts(others, text)) << text;
  for (const char* text : {"xé", "a", "aba"}) EXPECT_FALSE(accepts(others, text)) << text;
}

TEST(GbnfGrammar, TakesLeftRecursionAndNesting) {
  const GrammarPtr sums = gbnf(
      "root ::= sum\nsum ::= sum \"+\" product | product\nproduct ::= product \"*\" unit | unit\n"
      "unit ::= [0-9] | \"(\" sum \")\"");
  for (const char* text : {"1", "1+2*3", "(1+2)*(3+4)*5"}) EXPECT_TRUE(accepts(sums, text)) << text;
  for (const char* text : {"", "1+", "(1", "+1"}) EXPECT_FALSE(accepts(sums, text)) << text;
  const GrammarPtr indirect = gbnf("root ::= a\na ::= b \"x\" | \"y\"\nb ::= a \"z\" | \"w\"");
  for (const char* text : {"y", "wx", "yzx", "wxzx"}) EXPECT_TRUE(accepts(indirect, text)) << text;
  EXPECT_FALSE(accepts(indirect, "yz"));
  const GrammarPtr loops = gbnf("root ::= (a? b?)*\na ::= \"(\" root \")\"\nb ::= \"x\"");
  for (const char* text : {"", "xx", "(x(x))x"}) EXPECT_TRUE(accepts(loops, text)) << text;
}

TEST(GbnfGrammar, ErrorsNameLineAndColumn) {
  const auto expect = [](std::string_view source, const std::string& wanted) {
    const std::string message = message_of([&] { gbnf(source); });
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
  };
  expect("root ::= \"a\n", "line 1, column 10: this string does not end");
  expect("root ::= a\n", "line 1, column 10: the rule 'a' is not defined");
  expect("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule 'root' is there already");
  expect("a ::= \"a\"", "'root'");
  expect("root = \"a\"", "'::=' is expected");
  expect("root ::= (\"a\"", "line 1, column 10");
  expect("root ::= \"a\"{3,1}", "wrong way round");
  expect("root ::= root", "matches no text");
  expect("", "'root'");
  expect(std::string(1000, '(').insert(0, "root ::= "), "nest deeper");
}

TEST(LarkGrammar, ReadsRulesTerminalsAndWhatIsIgnored) {
  const GrammarPtr calculator = lark(R"G(
// a calculator
?start: sum
sum: product | sum "+" product -> add | sum "-" product
product: atom | product "*" atom
atom: NUMBER | "(" sum ")" | NAME
NAME: LETTER (LETTER | "0".."9")*
LETTER: /[a-z]/i
%import common.NUMBER
%ignore " "
)G");
  for (const char* text : {"1", "1 + 2*3", " ( a1 - 2.5 )* B "})
    EXPECT_TRUE(accepts(calculator, text)) << text;
  for (const char* text : {"", "1 +", "( 1", "1 2 3 4 +"}) EXPECT_FALSE(accepts(calculator, text)) << text;
  const GrammarPtr counted = lark("start: \"ab\"i~2..3 [\"x\"] | \"é\"\n");
  for (const char* text : {"abAB", "aBAbABx", "é"}) EXPECT_TRUE(accepts(counted, text)) << text;
  EXPECT_FALSE(accepts(counted, "ab"));
  EXPECT_NE(message_of([] { lark("start: x\n"); }).find("line 1, column 8: the rule 'x'"), std::string::npos);
  EXPECT_NE(message_of([] { lark("start: \"a\"\n%declare B"); }).find("line 2"), std::string::npos);
}

TEST(SpecialTokens, ComeOnlyWhereAGrammarNamesThem) {
  const std::int32_t special = small_vocabulary().trie().vocab_size() - 1;
  TokenMask mask(small_vocabulary().trie().vocab_size());
  Matcher anything(regex("(?:.|\\n)*"));
  anything.fill(mask);
  EXPECT_FALSE(mask.has(special));
  EXPECT_TRUE(mask.has('a'));
  EXPECT_FALSE(anything.accept(special));
  Matcher named(gbnf("root ::= \"a\" <end> \"b\""));
  ASSERT_TRUE(named.accept('a'));
  named.fill(mask);
  EXPECT_EQ(mask.count(), 1);
  ASSERT_TRUE(named.accept(special));
  ASSERT_TRUE(named.accept('b'));
  EXPECT_TRUE(named.finished());
}

}  // namespace
}  // namespace ingot::grammar

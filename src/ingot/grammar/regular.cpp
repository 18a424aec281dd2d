#include <algorithm>

#include "ingot/base/error.h"
#include "ingot/grammar/grammar.h"
#include "ingot/grammar/pattern.h"
#include "ingot/grammar/program.h"

namespace ingot::grammar {

GrammarPtr from_regex(const Vocabulary& vocabulary, std::string_view pattern) {
  Rules rules(vocabulary, false);
  const std::uint32_t root = rules.add("regex");
  rules.produce(root, {rules.terminal(compile_pattern(rules.expressions(), pattern, {}, "regex"))});
  return rules.finish(root);
}

GrammarPtr from_choice(const Vocabulary& vocabulary, std::span<const std::string> texts) {
  INGOT_CHECK(!texts.empty(), InvalidConfig("choice", "has no text to choose"));
  INGOT_CHECK(std::ranges::none_of(texts, &std::string::empty), InvalidConfig("choice", "has an empty text"));
  Rules rules(vocabulary, false);
  const std::uint32_t root = rules.add("choice");
  rules.produce(root, {rules.terminal(rules.expressions().one_of({texts.begin(), texts.end()}))});
  return rules.finish(root);
}

}  // namespace ingot::grammar

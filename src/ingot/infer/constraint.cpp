#include "ingot/infer/constraint.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/grammar/matcher.h"
#include "ingot/grammar/token_set.h"
#include "ingot/grammar/token_trie.h"

namespace ingot::infer {
namespace {

constexpr std::size_t kKeptGrammars = 64;

grammar::GrammarPtr compile(const grammar::Vocabulary& vocabulary, const Constraint& constraint) {
  using Kind = Constraint::Kind;
  switch (constraint.kind) {
    case Kind::none:
      return nullptr;
    case Kind::json_object:
      return grammar::any_json_object(vocabulary);
    case Kind::json_schema:
      return grammar::from_json_schema(vocabulary, constraint.source);
    case Kind::regex:
      return grammar::from_regex(vocabulary, constraint.source);
    case Kind::choice:
      return grammar::from_choice(vocabulary, constraint.choices);
    case Kind::gbnf:
      return grammar::from_gbnf(vocabulary, constraint.source);
    case Kind::lark:
      return grammar::from_lark(vocabulary, constraint.source);
    case Kind::tools:
      return grammar::from_tools(vocabulary, constraint.tools);
  }
  return nullptr;
}

}  // namespace

Constraint grammar_constraint(std::string source) {
  const bool gbnf = source.find("::=") != std::string::npos;
  return {.kind = gbnf ? Constraint::Kind::gbnf : Constraint::Kind::lark, .source = std::move(source)};
}

struct GrammarCache::State {
  std::mutex mutex;
  text::Tokenizer tokenizer;
  std::optional<grammar::Vocabulary> vocabulary{};  // made when it is first asked for
  std::list<std::pair<Constraint, grammar::GrammarPtr>> kept{};
};

GrammarCache::GrammarCache(text::Tokenizer tokenizer)
    : state_(new State{.mutex = {}, .tokenizer = std::move(tokenizer)}) {}
GrammarCache::~GrammarCache() = default;

grammar::GrammarPtr GrammarCache::get(const Constraint& constraint) {
  if (constraint.kind == Constraint::Kind::none) return nullptr;
  const grammar::Vocabulary* vocabulary = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->vocabulary) state_->vocabulary.emplace(state_->tokenizer);
    vocabulary = &*state_->vocabulary;
    auto& kept = state_->kept;
    const auto found =
        std::ranges::find(kept, constraint, &std::pair<Constraint, grammar::GrammarPtr>::first);
    if (found != kept.end()) {
      kept.splice(kept.begin(), kept, found);
      return kept.front().second;
    }
  }
  grammar::GrammarPtr made = compile(*vocabulary, constraint);
  const std::lock_guard lock(state_->mutex);
  state_->kept.emplace_front(constraint, made);
  if (state_->kept.size() > kKeptGrammars) state_->kept.pop_back();
  return made;
}

struct GrammarGuide::State {
  grammar::Matcher matcher;
  std::vector<std::int32_t> end_tokens;
  grammar::TokenMask mask;
};

GrammarGuide::GrammarGuide(grammar::GrammarPtr grammar, std::vector<std::int32_t> end_tokens) {
  grammar::Matcher matcher(std::move(grammar));
  const std::int32_t size = matcher.vocab_size();
  std::erase_if(end_tokens, [size](std::int32_t id) { return id < 0 || id >= size; });
  state_.reset(new State{std::move(matcher), std::move(end_tokens), grammar::TokenMask(size)});
}
GrammarGuide::~GrammarGuide() = default;

const grammar::TokenMask& GrammarGuide::allowed() {
  state_->matcher.fill(state_->mask);
  if (state_->matcher.finished())
    for (const std::int32_t id : state_->end_tokens) state_->mask.add(id);
  return state_->mask;
}

void GrammarGuide::take(std::int32_t token) {
  if (state_->matcher.accept(token)) return;
  const bool ends = std::ranges::find(state_->end_tokens, token) != state_->end_tokens.end();
  INGOT_CHECK(ends, InvalidConfig("grammar", "does not allow a token that was drawn by it"));
}

bool GrammarGuide::complete() const { return state_->matcher.finished() && !state_->matcher.extends(); }

}  // namespace ingot::infer

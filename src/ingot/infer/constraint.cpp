#include "ingot/infer/constraint.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/grammar/matcher.h"
#include "ingot/grammar/program.h"
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
  const text::Tokenizer tokenizer;
  std::once_flag asked{};
  std::optional<grammar::Vocabulary> vocabulary{};  // made when it is first asked for
  std::mutex mutex{};                               // of what follows
  std::list<std::pair<Constraint, grammar::GrammarPtr>> kept{};
};

GrammarCache::GrammarCache(text::Tokenizer tokenizer)
    : state_(new State{.tokenizer = std::move(tokenizer)}) {}
GrammarCache::~GrammarCache() = default;

grammar::GrammarPtr GrammarCache::find(const Constraint& constraint) const {
  const std::lock_guard lock(state_->mutex);
  auto& kept = state_->kept;
  const auto found = std::ranges::find(kept, constraint, &std::pair<Constraint, grammar::GrammarPtr>::first);
  if (found == kept.end()) return nullptr;
  kept.splice(kept.begin(), kept, found);
  return kept.front().second;
}

grammar::GrammarPtr GrammarCache::get(const Constraint& constraint) {
  if (constraint.kind == Constraint::Kind::none) return nullptr;
  if (grammar::GrammarPtr kept = find(constraint); kept != nullptr) return kept;
  std::call_once(state_->asked, [this] { state_->vocabulary.emplace(state_->tokenizer); });
  grammar::GrammarPtr made = compile(*state_->vocabulary, constraint);
  if (!constraint.thoughts.end.empty())
    made = std::make_shared<const grammar::Grammar>(made->program(), constraint.thoughts);
  if (grammar::GrammarPtr kept = find(constraint); kept != nullptr) return kept;  // another thread was faster
  const std::lock_guard lock(state_->mutex);
  state_->kept.emplace_front(constraint, made);
  if (state_->kept.size() > kKeptGrammars) state_->kept.pop_back();
  return made;
}

namespace {

constexpr std::size_t kMostBreaks = 2;  // tokens of line breaks behind thoughts

bool is_line_breaks(std::string_view text) {
  return !text.empty() && text.find_first_not_of('\n') == text.npos;
}

}  // namespace

struct GrammarGuide::State {
  // before: thoughts may begin; behind: they have ended.
  enum class Phase : std::uint8_t { before, thoughts, behind, text };

  State(grammar::GrammarPtr grammar, std::vector<std::int32_t> ends)
      : thoughts(grammar->thoughts()),
        program(grammar->program()),
        matcher(std::move(grammar)),
        end_tokens(std::move(ends)),
        mask(matcher.vocab_size()),
        free(matcher.vocab_size()) {
    std::erase_if(end_tokens, [this](std::int32_t id) { return id < 0 || id >= matcher.vocab_size(); });
    if (thoughts.end.empty()) return;
    phase = thoughts.begun ? Phase::thoughts : Phase::before;
    for (std::int32_t id = 0; id < matcher.vocab_size(); ++id) {
      if (bytes(id) == thoughts.begin) begin_token = id;
      if (is_line_breaks(bytes(id))) breaks.push_back(id);
      if (!bytes(id).empty() && !is_end(id) && !runs_on(bytes(id), thoughts.end)) free.add(id);
    }
  }

  // What a token writes: the name of a special one.
  std::string_view bytes(std::int32_t id) const {
    const std::string_view text = program->shared->automata.trie().bytes(id);
    return text.starts_with(grammar::kSpecialMark) ? text.substr(1) : text;
  }
  bool is_end(std::int32_t id) const { return std::ranges::find(end_tokens, id) != end_tokens.end(); }

  // Whether a token goes on behind what is left of the marker.
  static bool runs_on(std::string_view text, std::string_view marker) {
    const std::size_t at = text.find(marker);
    return at != text.npos && text.find_first_not_of('\n', at + marker.size()) != text.npos;
  }
  // Everything but what ends the sequence, and tokens that go on behind the thoughts.
  const grammar::TokenMask& free_tokens() {
    const std::size_t begun = begun_marker();
    if (begun == 0) return free;
    const std::string_view rest = std::string_view(thoughts.end).substr(begun);
    mask.clear();
    for (std::int32_t id = 0; id < mask.size(); ++id) {
      if (free.has(id) && !(bytes(id).starts_with(rest) && runs_on(bytes(id), rest))) mask.add(id);
    }
    return mask;
  }
  // How much of the marker that ends them is there.
  std::size_t begun_marker() const {
    std::size_t length = std::min(thoughts.end.size() - 1, thought.size());
    while (length > 0 &&
           !std::string_view(thought).ends_with(std::string_view(thoughts.end).substr(0, length)))
      --length;
    return length;
  }
  void think(std::int32_t token) {
    thought += bytes(token);
    if (thought.find(thoughts.end) != thought.npos) phase = Phase::behind;
    if (thought.size() > 4 * thoughts.end.size()) thought.erase(0, thought.size() - thoughts.end.size());
  }

  const grammar::Thoughts thoughts;
  const std::shared_ptr<const grammar::Program> program;
  grammar::Matcher matcher;
  std::vector<std::int32_t> end_tokens, breaks{};
  grammar::TokenMask mask, free;
  Phase phase = Phase::text;
  std::int32_t begin_token = -1;
  std::size_t breaks_taken = 0;
  std::string thought{};  // the end of it
};

GrammarGuide::GrammarGuide(grammar::GrammarPtr grammar, std::vector<std::int32_t> end_tokens)
    : state_(std::make_unique<State>(std::move(grammar), std::move(end_tokens))) {}
GrammarGuide::~GrammarGuide() = default;

const grammar::TokenMask& GrammarGuide::allowed() {
  using Phase = State::Phase;
  State& s = *state_;
  if (s.phase == Phase::thoughts) return s.free_tokens();
  s.matcher.fill(s.mask);
  if (s.matcher.finished())
    for (const std::int32_t id : s.end_tokens) s.mask.add(id);
  if (s.phase == Phase::before && s.begin_token >= 0) s.mask.add(s.begin_token);
  if (s.phase == Phase::behind && s.breaks_taken < kMostBreaks)
    for (const std::int32_t id : s.breaks) s.mask.add(id);
  return s.mask;
}

void GrammarGuide::take(std::int32_t token) {
  using Phase = State::Phase;
  State& s = *state_;
  if (s.phase == Phase::thoughts) return s.think(token);
  if (s.phase == Phase::before && token == s.begin_token) {
    s.phase = Phase::thoughts;
    return;
  }
  if (s.matcher.accept(token)) {
    s.phase = Phase::text;
    return;
  }
  if (s.phase == Phase::behind && is_line_breaks(s.bytes(token))) {
    ++s.breaks_taken;
    return;
  }
  INGOT_CHECK(s.is_end(token), InvalidConfig("grammar", "does not allow a token that was drawn by it"));
}

bool GrammarGuide::complete() const {
  const State& s = *state_;
  return s.phase == State::Phase::text && s.matcher.finished() && !s.matcher.extends();
}

}  // namespace ingot::infer

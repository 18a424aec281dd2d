#include "ingot/grammar/automata.h"

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/grammar/time_limit.h"

namespace ingot::grammar {
namespace {

constexpr std::size_t kMostSearched = 50'000;  // states looked at to find whether anything matches
constexpr std::size_t kWide = 48;              // bytes that may come in states that take most of the trie
constexpr std::size_t kMostSize = 400'000;     // states and expressions

}  // namespace

Automata::Automata(std::shared_ptr<const TokenTrie> trie) : trie_(std::move(trie)) {
  states_.emplace_back();
  rows_.emplace_back();
  accepting_.push_back(0);
  by_expr_.emplace(Expressions::kNothing, kDead);
}

StateId Automata::start(ExprId id) { return state_of(id); }

StateId Automata::state_of(ExprId id) {
  if (const auto found = by_expr_.find(id); found != by_expr_.end()) return found->second;
  if (!alive(id)) {
    by_expr_.emplace(id, kDead);
    return kDead;
  }
  INGOT_CHECK(size() < kMostSize,
              InvalidConfig("grammar", "needs too much memory: its patterns have too many states"));
  const auto state = static_cast<StateId>(states_.size());
  states_.push_back({.expr = id});
  rows_.emplace_back();
  accepting_.push_back(expressions_.nullable(id) ? 1 : 0);
  by_expr_.emplace(id, state);
  return state;
}

// Without intersections and complements an expression that is not kNothing matches something. With them, a
// search for a state that accepts tells.
bool Automata::alive(ExprId id) {
  if (id == Expressions::kNothing) return false;
  if (!expressions_.has_boolean(id) || expressions_.nullable(id)) return true;
  if (const auto found = alive_.find(id); found != alive_.end()) return found->second;
  struct Step {
    ExprId expr;
    std::size_t from;
  };
  std::vector<Step> reached{{id, 0}};
  std::unordered_set<ExprId> seen{id};
  for (std::size_t at = 0; at < reached.size(); ++at) {
    CompileTimeLimit::check();
    INGOT_CHECK(
        at < kMostSearched,
        InvalidConfig("grammar", fmt::format("is too hard: whether a pattern matches anything is not known "
                                             "after {} states",
                                             kMostSearched)));
    const ExprId here = reached[at].expr;
    const auto known = alive_.find(here);
    const bool found = expressions_.nullable(here) || !expressions_.has_boolean(here) ||
                       (known != alive_.end() && known->second);
    if (found) {
      for (std::size_t back = at;; back = reached[back].from) {
        alive_[reached[back].expr] = true;
        if (back == 0) return true;
      }
    }
    if (known != alive_.end()) continue;
    const auto classes = expressions_.classes(here);
    std::array<bool, 256> done{};
    for (unsigned b = 0; b < 256; ++b) {
      if (std::exchange(done[classes[b]], true)) continue;
      const ExprId next = expressions_.derivative(here, static_cast<unsigned char>(b));
      if (next != Expressions::kNothing && seen.insert(next).second) reached.push_back({next, at});
    }
  }
  for (const Step& step : reached) alive_[step.expr] = false;
  return false;
}

const Automata::Row& Automata::make_row(StateId state) {
  CompileTimeLimit::check();
  const ExprId expr = states_[state].expr;
  auto row = std::make_unique<Row>();
  row->fill(kDead);
  if (expr != Expressions::kNothing) {
    const auto classes = expressions_.classes(expr);
    std::array<StateId, 256> of_class{};
    std::array<bool, 256> done{};
    for (unsigned b = 0; b < 256; ++b) {
      if (!std::exchange(done[classes[b]], true))
        of_class[classes[b]] = state_of(expressions_.derivative(expr, static_cast<unsigned char>(b)));
      (*row)[b] = of_class[classes[b]];
    }
  }
  rows_[state] = std::move(row);
  return *rows_[state];
}

bool Automata::extends(StateId state) {
  std::int8_t& known = states_[state].extends;
  if (known < 0) {
    const Row& row = rows_[state] != nullptr ? *rows_[state] : make_row(state);
    known = std::ranges::any_of(row, [](StateId next) { return next != kDead; }) ? 1 : 0;
  }
  return known == 1;
}

bool Automata::matches(ExprId id, std::string_view text) {
  StateId state = start(id);
  for (const char c : text) state = next(state, static_cast<unsigned char>(c));
  return accepting(state);
}

StateId Automata::alike(TokenTrie::Part part, StateId state) {
  StateId& known = states_[state].alike[part];
  if (known == kUnknown) {
    const ExprId expr = states_[state].expr;
    // Whether an intersection is empty may hang on counts that no token reaches.
    known =
        expressions_.has_boolean(expr)
            ? state
            : state_of(expressions_.counting_to(expr, static_cast<std::uint32_t>(trie_->max_depth(part))));
  }
  return known;
}

const StateTokens& Automata::tokens(TokenTrie::Part part, StateId state) {
  CompileTimeLimit::check();
  if (states_[state].tokens[part] != nullptr) return *states_[state].tokens[part];
  auto result = std::make_unique<StateTokens>();
  TokenMask inside(trie_->vocab_size());
  std::vector<StateId> path(trie_->max_depth(part) + 1, kDead);
  path[0] = state;
  const std::span nodes(trie_->nodes());
  const std::size_t end = trie_->end_of(part);
  for (std::size_t i = trie_->begin_of(part); i < end;) {
    const TokenTrie::Node& node = nodes[i];
    const StateId here = next(path[node.depth - 1U], node.byte);
    if (here == kDead) {
      i += node.skip;
      continue;
    }
    path[node.depth] = here;
    if (node.token >= 0) trie_->for_each_token(i, [&](std::int32_t id) { inside.add(id); });
    if (node.skip > 1 && accepting_[here] != 0) result->exits.push_back(static_cast<std::uint32_t>(i));
    ++i;
  }
  result->inside = token_set(inside);
  states_[state].tokens[part] = std::move(result);
  return *states_[state].tokens[part];
}

void Automata::prepare(StateId state, std::size_t most) {
  if (state == kDead || states_[state].prepared) return;
  std::vector<StateId> reached{state};
  std::unordered_set<StateId> seen{state, kDead};
  for (std::size_t at = 0; at < reached.size() && at < most; ++at) {
    states_[reached[at]].prepared = true;
    std::size_t width = 0;  // bytes that may come
    for (unsigned b = 0; b < 256; ++b) {
      const StateId next = this->next(reached[at], static_cast<unsigned char>(b));
      if (next != kDead) ++width;
      if (seen.insert(next).second) reached.push_back(next);
    }
    if (width < kWide) continue;  // told quickly when it is asked for
    for (const TokenTrie::Part part : {TokenTrie::kShort, TokenTrie::kLong})
      tokens(part, alike(part, reached[at]));
  }
}

}  // namespace ingot::grammar

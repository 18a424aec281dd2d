#include "ingot/grammar/program.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/grammar/time_limit.h"

namespace ingot::grammar {
namespace {

constexpr std::size_t kLargeAutomata = 150'000;  // states and expressions; new grammars begin anew then
constexpr std::size_t kMostRules = 100'000;
constexpr std::size_t kPrepared = 500, kPreparedOfTerminal = 48;  // terminals, and states of one
constexpr std::size_t kMostProductions = 200'000;

std::shared_ptr<SharedAutomata> automata_in_turn(const Vocabulary& vocabulary, bool shared) {
  const CompileTimeLimit::Wait wait;
  return vocabulary.automata(shared);
}

}  // namespace

struct Vocabulary::Current {
  std::mutex mutex;
  std::shared_ptr<SharedAutomata> automata;
};

Vocabulary::Vocabulary(const text::Tokenizer& tokenizer)
    : trie_(std::make_shared<const TokenTrie>(tokenizer)), current_(std::make_shared<Current>()) {}

Vocabulary::Vocabulary(std::vector<std::string> spellings)
    : trie_(std::make_shared<const TokenTrie>(std::move(spellings))), current_(std::make_shared<Current>()) {}

std::shared_ptr<SharedAutomata> Vocabulary::automata(bool shared) const {
  if (!shared) return std::make_shared<SharedAutomata>(trie_);
  const std::lock_guard lock(current_->mutex);
  auto& automata = current_->automata;
  if (automata != nullptr) {
    const std::lock_guard in_use(automata->mutex);
    if (automata->automata.size() < kLargeAutomata) return automata;
  }
  automata = std::make_shared<SharedAutomata>(trie_);
  return automata;
}

Rules::Rules(const Vocabulary& vocabulary, bool shared)
    : shared_(automata_in_turn(vocabulary, shared)), lock_(shared_->mutex, std::defer_lock) {
  take_lock();
}

void Rules::take_lock() {
  {
    const CompileTimeLimit::Wait wait;
    lock_.lock();
  }
  locked_ = std::chrono::steady_clock::now();
}

// Sequences that are being written ask the same automata which tokens may come.
void Rules::let_others() {
  constexpr std::chrono::milliseconds kHeld{5};
  if (std::chrono::steady_clock::now() - locked_ < kHeld) return;
  lock_.unlock();
  take_lock();
}

std::uint32_t Rules::add(std::string name) {
  INGOT_CHECK(rules_.size() < kMostRules,
              InvalidConfig("grammar", fmt::format("is too large: it has more than {} rules", kMostRules)));
  rules_.push_back({std::move(name), {}});
  return static_cast<std::uint32_t>(rules_.size() - 1);
}

void Rules::produce(std::uint32_t rule, Production production) {
  CompileTimeLimit::check();
  let_others();
  std::erase_if(production,
                [](const Symbol& symbol) { return symbol == Symbol::terminal(Expressions::kEmpty); });
  rules_[rule].productions.push_back(std::move(production));
}

Symbol Rules::either(const std::vector<Production>& choices) {
  if (choices.size() == 1 && choices.front().size() == 1) return choices.front().front();
  const std::uint32_t rule = add();
  for (const Production& each : choices) produce(rule, each);
  return Symbol::rule(rule);
}

Production Rules::repeat(Symbol symbol, std::uint32_t least, std::uint32_t most, const Production& between) {
  const auto behind = [&] {  // another one, behind the first
    Production production = between;
    production.push_back(symbol);
    return production;
  };
  // rest: what may follow the first `least` ones.
  Symbol rest = Symbol::terminal(Expressions::kEmpty);
  const std::uint32_t needed = std::max(least, 1U);
  if (most == Expressions::kMany) {
    const std::uint32_t rule = add();
    produce(rule, {});
    Production more = behind();
    more.push_back(Symbol::rule(rule));
    produce(rule, std::move(more));
    rest = Symbol::rule(rule);
  } else {
    for (std::uint32_t count = needed; count < most; ++count) {
      const std::uint32_t rule = add();
      produce(rule, {});
      Production more = behind();
      more.push_back(rest);
      produce(rule, std::move(more));
      rest = Symbol::rule(rule);
    }
  }
  if (most == 0) return {};
  Production all{symbol};
  for (std::uint32_t count = 1; count < needed; ++count) {
    const Production more = behind();
    all.insert(all.end(), more.begin(), more.end());
  }
  all.push_back(rest);
  if (least > 0) return all;
  return {either({{}, all})};
}

void Rules::check_size() const {
  std::size_t productions = 0;
  for (const Rule& rule : rules_) productions += rule.productions.size();
  INGOT_CHECK(productions < kMostProductions,
              InvalidConfig("grammar",
                            fmt::format("is too large: it has more than {} productions", kMostProductions)));
}

// Productions whose symbols all make something.
void Rules::drop_unproductive() {
  std::vector<bool> makes(rules_.size());
  const auto productive = [&](const Production& production) {
    CompileTimeLimit::check();
    return std::ranges::all_of(production, [&](const Symbol& symbol) {
      return symbol.kind == Symbol::Kind::rule ? makes[symbol.id] : !automata().is_nothing(symbol.id);
    });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rule = rules_.size(); rule-- > 0;) {
      if (makes[rule] || !std::ranges::any_of(rules_[rule].productions, productive)) continue;
      makes[rule] = changed = true;
    }
  }
  for (Rule& rule : rules_)
    std::erase_if(rule.productions, [&](const Production& each) { return !productive(each); });
}

std::vector<bool> Rules::nullable_rules() {
  std::vector<bool> nullable(rules_.size());
  const auto empty = [&](const Production& production) {
    return std::ranges::all_of(production, [&](const Symbol& symbol) {
      return symbol.kind == Symbol::Kind::rule ? nullable[symbol.id] : terminal_is_nullable(symbol.id);
    });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rule = rules_.size(); rule-- > 0;) {
      if (nullable[rule] || !std::ranges::any_of(rules_[rule].productions, empty)) continue;
      nullable[rule] = changed = true;
    }
  }
  return nullable;
}

// Rules that a text of this rule may begin with, directly.
std::vector<Rules::Corner> Rules::left_corners(std::uint32_t rule, const std::vector<bool>& nullable) {
  std::vector<Corner> corners;
  for (const Production& production : rules_[rule].productions) {
    for (std::size_t i = 0; i < production.size(); ++i) {
      const Symbol& symbol = production[i];
      const bool is_rule = symbol.kind == Symbol::Kind::rule;
      if (is_rule) corners.push_back({symbol.id, i + 1 == production.size()});
      if (!(is_rule ? nullable[symbol.id] : terminal_is_nullable(symbol.id))) break;
    }
  }
  return corners;
}

// Rules on circles of rules that begin with one another, where there is one that a matcher would follow
// forever: one with a rule that is not the last of its production.
std::vector<std::uint32_t> Rules::left_recursive_rules() {
  const std::vector<bool> nullable = nullable_rules();
  std::vector<std::vector<Corner>> corners;
  std::vector<std::vector<std::uint32_t>> users(rules_.size());
  std::vector<std::size_t> left(rules_.size());
  std::vector<std::uint32_t> todo;
  for (std::uint32_t rule = 0; rule < rules_.size(); ++rule) {
    corners.push_back(left_corners(rule, nullable));
    for (const Corner& corner : corners.back()) users[corner.rule].push_back(rule);
    left[rule] = corners.back().size();
    if (left[rule] == 0) todo.push_back(rule);
  }
  while (!todo.empty()) {  // rules that reach no circle
    const std::uint32_t rule = todo.back();
    todo.pop_back();
    for (const std::uint32_t user : users[rule])
      if (--left[user] == 0) todo.push_back(user);
  }
  const auto reaches = [&](std::uint32_t from, std::uint32_t to) {
    CompileTimeLimit::check();
    std::vector<bool> seen(rules_.size());
    std::vector<std::uint32_t> stack{from};
    while (!stack.empty()) {
      const std::uint32_t rule = stack.back();
      stack.pop_back();
      if (rule == to) return true;
      if (seen[rule] || left[rule] == 0) continue;
      seen[rule] = true;
      for (const Corner& corner : corners[rule]) stack.push_back(corner.rule);
    }
    return false;
  };
  std::vector<std::uint32_t> found;
  bool endless = false;
  for (std::uint32_t rule = 0; rule < rules_.size(); ++rule) {
    if (left[rule] == 0) continue;
    bool on_circle = false;
    for (const Corner& corner : corners[rule]) {
      if (!reaches(corner.rule, rule)) continue;
      on_circle = true;
      endless = endless || !corner.last;
    }
    if (on_circle) found.push_back(rule);
  }
  if (!endless) found.clear();
  return found;
}

// A → A a | b becomes A → b R, R → a R | nothing.
void Rules::remove_direct_left_recursion(std::uint32_t rule) {
  std::vector<Production> again, others;
  for (const Production& each : rules_[rule].productions) {
    const bool recursive = !each.empty() && each.front() == Symbol::rule(rule);
    if (!recursive) {
      others.push_back(each);
    } else if (each.size() > 1) {
      again.emplace_back(each.begin() + 1, each.end());
    }
  }
  if (others.size() == rules_[rule].productions.size()) return;
  const std::uint32_t rest = add(rules_[rule].name);
  for (Production& each : others) each.push_back(Symbol::rule(rest));
  rules_[rule].productions = std::move(others);
  produce(rest, {});
  for (Production& each : again) {
    each.push_back(Symbol::rule(rest));
    produce(rest, std::move(each));
  }
}

// Rules that reach themselves at the left are put into one another until only direct recursion is left
// (Paull's algorithm), which is then rewritten.
void Rules::remove_left_recursion() {
  const std::vector<std::uint32_t> rules = left_recursive_rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      std::vector<Production> changed;
      for (const Production& each : rules_[rules[i]].productions) {
        if (each.empty() || each.front() != Symbol::rule(rules[j])) {
          changed.push_back(each);
          continue;
        }
        for (const Production& first : rules_[rules[j]].productions) {
          changed.push_back(first);
          changed.back().insert(changed.back().end(), each.begin() + 1, each.end());
        }
      }
      rules_[rules[i]].productions = std::move(changed);
      check_size();
    }
    remove_direct_left_recursion(rules[i]);
  }
  if (rules.empty()) return;
  for (const std::uint32_t rule : left_recursive_rules()) {
    throw InvalidConfig("grammar",
                        fmt::format("has left recursion through a part that may be empty, in the rule "
                                    "'{}', which is not supported: rewrite it",
                                    rules_[rule].name));
  }
}

GrammarPtr Rules::finish(std::uint32_t root) {
  check_size();
  drop_unproductive();
  INGOT_CHECK(!rules_[root].productions.empty(), InvalidConfig("grammar", "matches no text at all"));
  remove_left_recursion();
  auto program = std::make_shared<Program>();
  program->shared = shared_;
  program->root = root;
  program->items.push_back({.kind = Program::Item::Kind::finish});
  program->starts.resize(rules_.size());
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    for (const Production& production : rules_[rule].productions) {
      program->starts[rule].push_back(static_cast<std::uint32_t>(program->items.size()));
      for (const Symbol& symbol : production) {
        if (symbol.kind == Symbol::Kind::rule) {
          program->items.push_back({.kind = Program::Item::Kind::rule, .id = symbol.id});
        } else {
          program->items.push_back({.kind = Program::Item::Kind::terminal,
                                    .nullable = terminal_is_nullable(symbol.id),
                                    .id = automata().start(symbol.id)});
        }
      }
      program->items.push_back({.kind = Program::Item::Kind::end});
    }
  }
  std::size_t left = kPrepared;
  for (const Program::Item& item : program->items) {
    if (item.kind != Program::Item::Kind::terminal || left == 0) continue;
    automata().prepare(item.id, std::min(left, kPreparedOfTerminal));
    let_others();
    --left;
  }
  return std::make_shared<const Grammar>(std::move(program));
}

}  // namespace ingot::grammar

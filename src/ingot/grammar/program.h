#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ingot/grammar/automata.h"
#include "ingot/grammar/grammar.h"
#include "ingot/grammar/turn_mutex.h"

namespace ingot::grammar {

/// Automata that several grammars use, one thread at a time.
struct SharedAutomata {
  explicit SharedAutomata(std::shared_ptr<const TokenTrie> trie) : automata(std::move(trie)) {}
  TurnMutex mutex;
  Automata automata;
};

/// One step of a rule.
struct Symbol {
  enum class Kind : std::uint8_t { terminal, rule };
  Kind kind = Kind::terminal;
  std::uint32_t id = 0;  ///< of the expression, or of the rule

  static Symbol terminal(ExprId expr) { return {Kind::terminal, expr}; }
  static Symbol rule(std::uint32_t id) { return {Kind::rule, id}; }
  bool operator==(const Symbol&) const = default;
};
using Production = std::vector<Symbol>;

/// Context-free rules whose terminals are expressions, while they are put together. Holds the lock on the
/// automata, but for a moment now and then.
class Rules {
 public:
  /// `shared`: with automata that other grammars use, which must not be large ones of somebody's own
  /// patterns.
  Rules(const Vocabulary& vocabulary, bool shared);

  Automata& automata() { return shared_->automata; }
  Expressions& expressions() { return shared_->automata.expressions(); }

  /// `name`: in errors.
  std::uint32_t add(std::string name = {});
  void produce(std::uint32_t rule, Production production);
  /// Where the rule has one production alone; else null.
  const Production* only_production(std::uint32_t rule) const {
    return rules_[rule].productions.size() == 1 ? rules_[rule].productions.data() : nullptr;
  }

  Symbol terminal(ExprId expr) const { return Symbol::terminal(expr); }
  Symbol literal(std::string_view text) { return Symbol::terminal(expressions().literal(text)); }
  /// One of several.
  Symbol either(const std::vector<Production>& choices);
  /// `symbol` so many times; Expressions::kMany: any number. `between` stands between two.
  Production repeat(Symbol symbol, std::uint32_t least, std::uint32_t most, const Production& between = {});

  /// The grammar that begins with `root`. Rules that make nothing are left out; left recursion is rewritten.
  /// Throws InvalidConfig where nothing is left, or recursion cannot be rewritten.
  GrammarPtr finish(std::uint32_t root);

 private:
  struct Rule {
    std::string name;
    std::vector<Production> productions;
  };
  bool terminal_is_nullable(ExprId expr) { return expressions().nullable(expr); }
  void drop_unproductive();
  std::vector<bool> nullable_rules();
  void remove_left_recursion();
  void remove_direct_left_recursion(std::uint32_t rule);
  struct Corner {  // a rule that another one may begin with
    std::uint32_t rule;
    bool last;  // in its production
  };
  std::vector<Corner> left_corners(std::uint32_t rule, const std::vector<bool>& nullable);
  std::vector<std::uint32_t> left_recursive_rules();
  void check_size() const;
  void take_lock();
  void let_others();

  std::shared_ptr<SharedAutomata> shared_;
  std::unique_lock<TurnMutex> lock_;
  std::chrono::steady_clock::time_point locked_;  // since when
  std::vector<Rule> rules_;
};

/// A compiled grammar: all productions one behind the other.
struct Program {
  struct Item {
    enum class Kind : std::uint8_t { terminal, rule, end, finish };
    Kind kind = Kind::end;
    bool nullable = false;  // of a terminal
    std::uint32_t id = 0;   // state where a terminal begins, or rule
  };
  static constexpr std::uint32_t kFinish = 0;  // of items: the text is complete

  std::shared_ptr<SharedAutomata> shared;
  std::vector<Item> items;
  std::vector<std::vector<std::uint32_t>> starts;  // of each rule: the first items of its productions
  std::uint32_t root = 0;
};

}  // namespace ingot::grammar

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ingot/grammar/expressions.h"
#include "ingot/grammar/token_set.h"
#include "ingot/grammar/token_trie.h"

namespace ingot::grammar {

using StateId = std::uint32_t;

/// What the tokens of a part of the vocabulary do in one state of a terminal's automaton.
struct StateTokens {
  TokenSet inside;                   ///< tokens that the terminal, begun here, can begin with or be
  std::vector<std::uint32_t> exits;  ///< nodes of the trie with more below, where the terminal may end
};

/// Deterministic automata of expressions, made state by state as they are asked for, and for each state the
/// tokens that it takes. Grammars of one vocabulary share them. Not for several threads at once.
class Automata {
 public:
  static constexpr StateId kDead = 0;

  explicit Automata(std::shared_ptr<const TokenTrie> trie);

  Expressions& expressions() { return expressions_; }
  const TokenTrie& trie() const { return *trie_; }

  /// kDead where nothing matches. Throws InvalidConfig where telling takes too many states.
  StateId start(ExprId id);
  StateId next(StateId state, unsigned char byte) {
    const Row* row = rows_[state].get();
    return (row != nullptr ? *row : make_row(state))[byte];
  }
  bool accepting(StateId state) const { return accepting_[state] != 0; }
  /// Whether any byte may follow.
  bool extends(StateId state);
  /// Whether the whole of `text` matches.
  bool matches(ExprId id, std::string_view text);
  /// Whether no text matches.
  bool is_nothing(ExprId id) { return start(id) == kDead; }

  /// The state whose tokens are those of this one: it counts no further than a token of the part can.
  StateId alike(TokenTrie::Part part, StateId state);
  const StateTokens& tokens(TokenTrie::Part part, StateId state);
  /// Prepares the tokens of the states nearest to this one, `most` of them.
  void prepare(StateId state, std::size_t most);

  /// States and expressions made so far: a measure of the memory.
  std::size_t size() const { return rows_.size() + expressions_.size(); }

 private:
  using Row = std::array<StateId, 256>;
  static constexpr StateId kUnknown = 0xFFFFFFFF;
  struct State {
    ExprId expr = 0;
    std::int8_t extends = -1;  // not known yet
    bool prepared = false;
    std::array<StateId, 2> alike{kUnknown, kUnknown};  // of each part
    std::array<std::unique_ptr<StateTokens>, 2> tokens{};
  };
  StateId state_of(ExprId id);
  const Row& make_row(StateId state);
  bool alive(ExprId id);

  std::shared_ptr<const TokenTrie> trie_;
  Expressions expressions_;
  std::vector<std::unique_ptr<Row>> rows_;  // of each state; null: not made yet
  std::vector<std::uint8_t> accepting_;
  std::deque<State> states_;
  std::unordered_map<ExprId, StateId> by_expr_;
  std::unordered_map<ExprId, bool> alive_;
};

}  // namespace ingot::grammar

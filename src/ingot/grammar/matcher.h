#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ingot/grammar/grammar.h"
#include "ingot/grammar/token_set.h"

namespace ingot::grammar {

struct StateTokens;

/// Follows a text token by token, and says which tokens may come next. A copy goes on by itself. Several
/// matchers of one grammar may run on different threads.
///
///     Matcher matcher(grammar);
///     matcher.fill(mask);        // tokens that may come
///     matcher.accept(token);
class Matcher {
 public:
  explicit Matcher(GrammarPtr grammar);

  /// Goes on by a token; false, and nothing has changed, where the grammar does not allow it. Throws
  /// InvalidConfig where the grammar is so ambiguous that its readings do not fit into memory.
  bool accept(std::int32_t token);
  /// The same for a piece of text.
  bool accept_text(std::string_view bytes);
  /// Sets the bits of all tokens that may come next, and clears the others. End tokens are not among them.
  void fill(TokenMask& mask);
  /// Whether the text so far is complete.
  bool finished() const { return now().finished; }
  /// Whether anything may follow.
  bool extends() const { return !now().threads.empty(); }
  std::int32_t vocab_size() const;
  /// Tokens and pieces of text accepted so far.
  std::size_t length() const { return states_.size() - 1; }
  /// Takes back the last `count` of them.
  void rollback(std::size_t count);

 private:
  struct Thread {         // one way to read the text so far
    std::uint32_t state;  // of the terminal that is being read
    std::uint32_t frame;  // where to go on behind it
    bool operator==(const Thread&) const = default;
    auto operator<=>(const Thread&) const = default;
  };
  struct Set {
    std::vector<Thread> threads;
    bool finished = false;
  };
  struct Frame {
    std::uint32_t item, parent;
  };
  struct Visit {
    Set& to;
    std::unordered_set<std::uint64_t> seen;  // items with their parents
  };
  const Set& now() const { return *states_.back(); }
  std::uint32_t frame(std::uint32_t item, std::uint32_t parent);
  const Set& behind(std::uint32_t frame);
  void expand(std::uint32_t item, std::uint32_t parent, Visit& visit);
  void step(const Set& from, unsigned char byte, Set& to);
  bool step_all(std::string_view bytes);
  const TokenSet& exits_of(const StateTokens& of, const Thread& thread, std::uint32_t part);
  void walk(std::size_t node, const Set& set, std::size_t depth, TokenMask& mask);

  GrammarPtr grammar_;
  std::vector<std::shared_ptr<const Set>> states_;  // behind each token
  std::vector<Frame> frames_;
  std::unordered_map<std::uint64_t, std::uint32_t> frame_ids_;
  std::vector<std::shared_ptr<const Set>> behind_;  // of each frame; null: not known yet
  std::unordered_map<std::uint64_t, std::shared_ptr<const TokenSet>> exits_;
  std::vector<Set> scratch_;
};

}  // namespace ingot::grammar

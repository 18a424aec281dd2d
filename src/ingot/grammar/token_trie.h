#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/text/tokenizer.h"

namespace ingot::grammar {

/// A byte that is in no UTF-8 text. The spelling of a special token begins with it, so that a grammar can
/// name such a token, and no text means one.
inline constexpr char kSpecialMark = '\xFF';

/// The tokens of a vocabulary by the bytes that they write, in the order of a depth-first walk: short ones
/// and long ones apart, so that what depends on their length may be told for most of them at once.
class TokenTrie {
 public:
  enum Part : std::uint8_t { kShort, kLong };
  static constexpr std::size_t kShortBytes = 16;  ///< of short tokens at most
  struct Node {
    std::int32_t token;   ///< that ends here; -1: none. Others that are spelled alike: more()
    std::uint32_t skip;   ///< nodes of the subtree, this one counted
    std::uint16_t depth;  ///< bytes up to here
    unsigned char byte;
  };

  explicit TokenTrie(const text::Tokenizer& tokenizer);
  /// From what each id writes; an empty string: nothing that a grammar could allow.
  explicit TokenTrie(std::vector<std::string> spellings);

  /// Without a root. The first nodes are those of short tokens.
  const std::vector<Node>& nodes() const { return nodes_; }
  std::size_t begin_of(Part part) const { return part == kShort ? 0 : short_nodes_; }
  std::size_t end_of(Part part) const { return part == kShort ? short_nodes_ : nodes_.size(); }
  /// Bytes of the longest token of a part.
  std::size_t max_depth(Part part) const { return part == kShort ? kShortBytes : max_depth_; }
  /// What a token writes, empty for ids without a text.
  std::string_view bytes(std::int32_t id) const;
  /// Whether a token is spelled so.
  bool has(std::string_view bytes) const;
  std::int32_t vocab_size() const { return static_cast<std::int32_t>(spellings_.size()); }
  std::size_t max_depth() const { return max_depth_; }

  /// Calls f(token) for each token that ends at the node.
  template <class F>
  void for_each_token(std::size_t node, F f) const {
    for (std::int32_t id = nodes_[node].token; id >= 0; id = alike_[static_cast<std::size_t>(id)]) f(id);
  }

 private:
  void add_nodes(const std::vector<std::int32_t>& order);
  std::vector<std::string> spellings_;
  std::vector<std::int32_t> alike_;  // the next token with the same spelling, -1: none
  std::vector<Node> nodes_;
  std::size_t short_nodes_ = 0, max_depth_ = kShortBytes;
};

}  // namespace ingot::grammar

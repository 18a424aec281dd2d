#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ingot/grammar/byte_set.h"

namespace ingot::grammar {

using ExprId = std::uint32_t;

/// Regular expressions over bytes with intersection and complement. Equal expressions have one id, so that
/// taking derivatives (Brzozowski 1964) makes finitely many of them: the states of an automaton.
class Expressions {
 public:
  static constexpr ExprId kNothing = 0;  ///< the empty language
  static constexpr ExprId kEmpty = 1;    ///< the empty string alone
  static constexpr std::uint32_t kMany = 0xFFFFFFFF;

  Expressions();

  ExprId bytes(const ByteSet& set);
  ExprId literal(std::string_view text);
  /// One of these strings; what they begin with alike is shared.
  ExprId one_of(std::vector<std::string> texts);
  ExprId concat(ExprId first, ExprId then);
  ExprId concat(std::span<const ExprId> parts);
  ExprId either(std::vector<ExprId> choices);
  ExprId either(ExprId a, ExprId b) { return either(std::vector{a, b}); }
  ExprId both(std::vector<ExprId> parts);
  ExprId both(ExprId a, ExprId b) { return both(std::vector{a, b}); }
  ExprId no(ExprId inner);
  /// `least` to `most` times; kMany: any number.
  ExprId repeat(ExprId inner, std::uint32_t least, std::uint32_t most);
  ExprId optional(ExprId inner) { return repeat(inner, 0, 1); }
  ExprId star(ExprId inner) { return repeat(inner, 0, kMany); }

  bool nullable(ExprId id) const { return nodes_[id].nullable; }
  /// Whether intersection or complement is in it, so that it may be empty without looking so.
  bool has_boolean(ExprId id) const { return nodes_[id].boolean; }
  /// What may follow `byte`.
  ExprId derivative(ExprId id, unsigned char byte);
  /// The same for texts of up to `most` bytes, but bounds of repetitions above that are no longer told apart.
  ExprId counting_to(ExprId id, std::uint32_t most);
  /// Splits the bytes into classes that all derivatives of `id` treat alike: the class of each byte.
  std::array<std::uint8_t, 256> classes(ExprId id);

  /// Expressions made so far.
  std::size_t size() const { return nodes_.size(); }

 private:
  enum class Kind : std::uint8_t { nothing, empty, bytes, concat, either, both, no, repeat };
  struct Node {
    Kind kind = Kind::nothing;
    bool nullable = false, boolean = false;
    std::uint32_t a = 0, b = 0;         // operands; of bytes the set, of lists begin and end in lists_
    std::uint32_t least = 0, most = 0;  // of repeat
  };
  std::span<const ExprId> list(const Node& node) const {
    return std::span(lists_).subspan(node.a, node.b - node.a);
  }
  ExprId intern(Node node, std::span<const ExprId> list = {});
  ExprId one_of_sorted(std::span<const std::string> texts, std::size_t depth);
  ExprId derive(ExprId id, unsigned char byte);
  /// A concatenation, from its last part on: it may be as long as a text.
  ExprId count_in_sequence(ExprId id, std::uint32_t most);
  void collect_sets(ExprId id, std::vector<std::uint32_t>& sets);
  /// A visit of expressions begins; visits_first: whether it comes to this one for the first time.
  void begin_visits();
  bool visits_first(ExprId id);

  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;
  std::vector<ExprId> lists_;
  std::unordered_map<std::string, ExprId> known_;
  std::unordered_map<std::uint64_t, ExprId> derivatives_;
  std::unordered_map<std::uint64_t, ExprId> counted_;  // by `most` and id
  std::size_t merged_ = 0;                             // alternatives that either() has put together
  std::vector<std::uint32_t> visited_;                 // by expression: the last visit
  std::uint32_t visit_ = 0;
  int depth_ = 0;  // of derivatives within derivatives
};

}  // namespace ingot::grammar

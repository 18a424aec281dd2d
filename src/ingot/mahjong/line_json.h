#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::mahjong {

/// One line of JSON, read without a copy of its texts: logs have a thousand lines a game. What it accepts is
/// what RFC 8259 does, nested up to 16 deep. It refers to the line, which outlives it.
class LineJson {
 public:
  class Value;
  /// Throws FormatError naming `source`.
  LineJson(std::string_view line, const std::string& source);
  Value root() const;

 private:
  enum class Kind : std::uint8_t { Null, Bool, Integer, Number, Text, List, Object };
  struct Node {
    Kind kind = Kind::Null;
    bool flag = false;     // of Bool; of Text: there are escapes in it
    std::uint32_t next{};  // sibling; 0: none
    std::uint32_t first{}, count{};
    std::int64_t integer = 0;
    std::string_view key, raw;  // the member's name without quotes; what stands in the line
  };
  class Scanner;
  std::vector<Node> nodes_;
};

class LineJson::Value {
 public:
  bool is_object() const { return node().kind == Kind::Object; }
  bool is_list() const { return node().kind == Kind::List; }
  bool is_text() const { return node().kind == Kind::Text; }
  bool is_bool() const { return node().kind == Kind::Bool; }
  /// Without a fraction or an exponent, and of at most 18 digits.
  bool is_integer() const { return node().kind == Kind::Integer; }

  bool flag() const { return node().flag; }
  std::int64_t integer() const { return node().integer; }
  std::string text() const;
  /// Of a text without escapes; empty for another, which no name of the format has.
  std::string_view plain() const;

  /// Of a list.
  std::size_t size() const { return node().count; }
  /// Of a list or an object, in order: begin() where there is one, then next().
  Value first() const { return {json_, node().first}; }
  Value next() const { return {json_, node().next}; }
  /// Whether there is such a value: false behind the last one, and for a member that is missing.
  explicit operator bool() const { return index_ != kNone; }
  /// Of an object, the last of that name.
  Value find(std::string_view name) const;

  /// The beginning of what stands in the line, for messages.
  std::string excerpt() const;

 private:
  friend class LineJson;
  static constexpr std::uint32_t kNone = 0;  // nodes_[0] is nobody's
  Value(const LineJson* json, std::uint32_t index) : json_(json), index_(index) {}
  const Node& node() const { return json_->nodes_[index_]; }
  const LineJson* json_;
  std::uint32_t index_;
};

inline LineJson::Value LineJson::root() const { return {this, 1}; }

}  // namespace ingot::mahjong

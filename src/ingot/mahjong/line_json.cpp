#include "ingot/mahjong/line_json.h"

#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"

namespace ingot::mahjong {
namespace {

constexpr int kDeepest = 16;
constexpr std::size_t kDigits = 18;  // of an integer that surely fits

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

// Where a line is not JSON, what is wrong is said by the JSON library: only the good ones have to be fast.
class LineJson::Scanner {
 public:
  Scanner(std::string_view line, const std::string& source, std::vector<Node>& nodes)
      : line_(line), source_(source), nodes_(nodes) {}

  void scan() {
    nodes_.reserve(32);
    nodes_.resize(1);
    value(0);
    skip_space();
    if (at_ != line_.size()) refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    static_cast<void>(parse_json<nlohmann::ordered_json>(line_, source_, "JSON"));
    throw FormatError(source_, static_cast<std::int64_t>(at_), "JSON", "is not valid JSON");
  }
  char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }
  void skip_space() {
    while (at_ < line_.size() &&
           (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r' || line_[at_] == '\n'))
      ++at_;
  }
  void expect(char c) {
    if (peek() != c) refuse();
    ++at_;
  }
  void expect(std::string_view word) {
    if (!line_.substr(at_).starts_with(word)) refuse();
    at_ += word.size();
  }

  // Returns its number among the nodes.
  std::uint32_t value(int depth) {
    skip_space();
    const auto index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
    const std::size_t begin = at_;
    Node node;
    switch (peek()) {
      case '{':
      case '[':
        container(node, depth);
        break;
      case '"':
        node.kind = Kind::Text;
        node.flag = text();
        break;
      case 't':
        expect("true");
        node.kind = Kind::Bool;
        node.flag = true;
        break;
      case 'f':
        expect("false");
        node.kind = Kind::Bool;
        break;
      case 'n':
        expect("null");
        break;
      default:
        number(node);
    }
    node.raw = line_.substr(begin, at_ - begin);
    nodes_[index] = node;
    return index;
  }

  void container(Node& node, int depth) {
    if (depth == kDeepest)
      throw FormatError(source_, static_cast<std::int64_t>(at_), "JSON", "is nested more than 16 deep");
    const bool object = line_[at_++] == '{';
    const char end = object ? '}' : ']';
    node.kind = object ? Kind::Object : Kind::List;
    skip_space();
    if (peek() == end) {
      ++at_;
      return;
    }
    for (std::uint32_t before = 0;; ++at_) {
      std::string_view key;
      if (object) key = member_name();
      const std::uint32_t index = value(depth + 1);
      nodes_[index].key = key;
      (before == 0 ? node.first : nodes_[before].next) = index;
      before = index;
      ++node.count;
      skip_space();
      if (peek() != ',') break;
    }
    expect(end);
  }

  // A name with escapes in it is none that is asked for.
  std::string_view member_name() {
    skip_space();
    const std::size_t begin = at_;
    if (peek() != '"') refuse();
    text();
    const std::string_view name = line_.substr(begin + 1, at_ - begin - 2);
    skip_space();
    expect(':');
    return name;
  }

  // Whether there are escapes in it.
  bool text() {
    const std::size_t begin = at_++;
    bool escapes = false, ascii = true;
    for (; peek() != '"'; ++at_) {
      if (static_cast<unsigned char>(peek()) < 0x20) refuse();  // its end, too
      ascii = ascii && static_cast<unsigned char>(peek()) < 0x80;
      if (peek() != '\\') continue;
      escapes = true;
      ++at_;
      if (at_ == line_.size()) refuse();
    }
    ++at_;
    if (escapes || !ascii)  // rare: what they stand for is the JSON library's
      if (!parse_json_or_discard<nlohmann::ordered_json>(line_.substr(begin, at_ - begin)).is_string())
        refuse();
    return escapes;
  }

  void number(Node& node) {
    const std::size_t begin = at_;
    if (peek() == '-') ++at_;
    const std::size_t digits = at_;
    while (is_digit(peek())) {
      if (at_ - digits < kDigits) node.integer = 10 * node.integer + (peek() - '0');
      ++at_;
    }
    const std::size_t count = at_ - digits;
    if (count == 0 || (count > 1 && line_[digits] == '0')) refuse();
    const bool whole = peek() != '.' && peek() != 'e' && peek() != 'E';
    node.kind = whole && count <= kDigits ? Kind::Integer : Kind::Number;
    if (line_[begin] == '-') node.integer = -node.integer;
    if (node.kind == Kind::Integer) return;
    while (is_digit(peek()) || peek() == '.' || peek() == 'e' || peek() == 'E' || peek() == '+' ||
           peek() == '-')
      ++at_;
    if (!parse_json_or_discard<nlohmann::ordered_json>(line_.substr(begin, at_ - begin)).is_number())
      refuse();
  }

  std::string_view line_;
  const std::string& source_;
  std::vector<Node>& nodes_;
  std::size_t at_ = 0;
};

LineJson::LineJson(std::string_view line, const std::string& source) { Scanner(line, source, nodes_).scan(); }

std::string LineJson::Value::text() const {
  if (!node().flag) return std::string(plain());
  return parse_json<nlohmann::ordered_json>(node().raw, "text").get<std::string>();
}

std::string_view LineJson::Value::plain() const {
  return node().flag ? std::string_view() : node().raw.substr(1, node().raw.size() - 2);
}

LineJson::Value LineJson::Value::find(std::string_view name) const {
  Value found(json_, kNone);
  if (!is_object()) return found;
  for (Value member = first(); member; member = member.next())
    if (member.node().key == name) found = member;
  return found;
}

std::string LineJson::Value::excerpt() const {
  constexpr std::size_t kLength = 40;
  return ingot::excerpt(parse_json<nlohmann::ordered_json>(node().raw, "the value"), kLength);
}

}  // namespace ingot::mahjong

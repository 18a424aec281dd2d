#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::text {

/// A token that is looked for in the text itself, before anything cuts it.
struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< takes the white space on its left along
  bool rstrip = false;
  bool normalized = false;  ///< looked for in the normalized text, itself normalized
  bool special = false;     ///< left out of decoded text on request
  std::string form;         ///< what is searched for: `content`, normalized where `normalized` says so
};

/// Finds added tokens in text: at each position the longest, from left to right.
class AddedTokenMatcher {
 public:
  /// Looks for `token.form` from now on.
  void add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  /// A stretch of text; `token` is null where no added token stands.
  struct Segment {
    std::string_view text;
    const AddedToken* token;
  };
  /// Cuts `text` into segments that cover it. With `skip_special` special tokens are text like any other.
  std::vector<Segment> split(std::string_view text, bool skip_special) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;
    std::int32_t token = -1;
  };
  const AddedToken* longest_at(std::string_view text, std::size_t position, std::size_t& length) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);  // a trie over bytes
  std::vector<AddedToken> tokens_;
  bool starts_[256] = {};
};

}  // namespace ingot::text

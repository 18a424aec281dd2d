#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::text {

/// A trie over bytes, made once from all its keys. The children of a node are contiguous, in order of their
/// bytes; those of the root are a table.
class ByteTrie {
 public:
  /// Keys with their values (not negative). Of equal keys the last one counts.
  void build(std::vector<std::pair<std::string_view, std::int32_t>> keys);

  /// Calls found(length, value) for every key that `text` starts with, the shortest first. How many bytes it
  /// took.
  template <class Found>
  std::size_t prefixes(std::string_view text, Found found) const {
    if (text.empty()) return 0;
    std::uint32_t node = root_[static_cast<unsigned char>(text[0])];
    std::size_t i = 1;
    for (; node != 0; ++i) {
      const Node& here = nodes_[node];
      if (here.value >= 0) found(i, here.value);
      if (i == text.size()) return i;
      const auto byte = static_cast<unsigned char>(text[i]);
      std::uint32_t next = 0;
      for (std::uint32_t c = here.first; c < here.first + here.count; ++c) {
        if (labels_[c] != byte) continue;
        next = c;
        break;
      }
      node = next;
    }
    return i;
  }

 private:
  struct Node {
    std::int32_t value = -1;
    std::uint32_t first = 0;  // child
    std::uint32_t count = 0;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);  // node 0 is the root, and "none" where a child is meant
  std::vector<unsigned char> labels_ = std::vector<unsigned char>(1);
  std::array<std::uint32_t, 256> root_{};
};

}  // namespace ingot::text

#include "ingot/text/byte_trie.h"

#include <algorithm>

namespace ingot::text {

void ByteTrie::build(std::vector<std::pair<std::string_view, std::int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Task {
    std::uint32_t node;
    std::size_t begin, end, depth;  // keys that share the node's first `depth` bytes
  };
  std::vector<Task> tasks = {{0, 0, keys.size(), 0}};
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    auto [node, begin, end, depth] = tasks[t];
    for (; begin < end && keys[begin].first.size() == depth; ++begin) nodes_[node].value = keys[begin].second;
    nodes_[node].first = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const char label = keys[begin].first[depth];
      std::size_t next = begin;
      while (next < end && keys[next].first[depth] == label) ++next;
      const auto child = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      labels_.push_back(static_cast<unsigned char>(label));
      ++nodes_[node].count;
      if (node == 0) root_[static_cast<unsigned char>(label)] = child;
      tasks.push_back({child, begin, next, depth + 1});
      begin = next;
    }
  }
}

}  // namespace ingot::text

#include "ingot/grammar/token_trie.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "ingot/text/token_spelling.h"

namespace ingot::grammar {
namespace {

constexpr std::size_t kMostTokenBytes = 0xFFFF;  // of a token

std::vector<std::string> spellings_of(const text::Tokenizer& tokenizer) {
  const text::TokenSpelling spelling(tokenizer);
  std::vector<std::string> spellings(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    std::string& text = spellings[static_cast<std::size_t>(id)];
    text = spelling.word(id);
    if (tokenizer.is_special(id)) text.insert(text.begin(), kSpecialMark);
  }
  return spellings;
}

}  // namespace

TokenTrie::TokenTrie(const text::Tokenizer& tokenizer) : TokenTrie(spellings_of(tokenizer)) {}

TokenTrie::TokenTrie(std::vector<std::string> spellings)
    : spellings_(std::move(spellings)), alike_(spellings_.size(), -1) {
  std::vector<std::int32_t> order(spellings_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order,
                [&](std::int32_t id) { return bytes(id).empty() || bytes(id).size() > kMostTokenBytes; });
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return bytes(a) < bytes(b); });
  std::vector<std::int32_t> part;
  const auto is_short = [&](std::int32_t id) { return bytes(id).size() <= kShortBytes; };
  std::ranges::copy_if(order, std::back_inserter(part), is_short);
  add_nodes(part);
  short_nodes_ = nodes_.size();
  std::erase_if(order, is_short);
  add_nodes(order);
}

std::string_view TokenTrie::bytes(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return spellings_[static_cast<std::size_t>(id)];
}

bool TokenTrie::has(std::string_view bytes) const {
  return !bytes.empty() && std::ranges::find(spellings_, bytes) != spellings_.end();
}

// Tokens in the order of their bytes.
void TokenTrie::add_nodes(const std::vector<std::int32_t>& order) {
  std::vector<std::size_t> path;  // nodes from the first byte to the last
  std::string_view before;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].skip = static_cast<std::uint32_t>(nodes_.size() - path.back());
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string_view text = bytes(order[i]);
    if (i > 0 && text == before) {
      alike_[static_cast<std::size_t>(order[i - 1])] = order[i];
      continue;
    }
    const auto shared = std::ranges::mismatch(before, text).in2 - text.begin();
    close(static_cast<std::size_t>(shared));
    for (std::size_t at = path.size(); at < text.size(); ++at) {
      path.push_back(nodes_.size());
      nodes_.push_back({.token = -1,
                        .skip = 1,
                        .depth = static_cast<std::uint16_t>(at + 1),
                        .byte = static_cast<unsigned char>(text[at])});
    }
    nodes_[path.back()].token = order[i];
    max_depth_ = std::max(max_depth_, text.size());
    before = text;
  }
  close(0);
}

}  // namespace ingot::grammar

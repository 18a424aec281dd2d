#include "ingot/text/token_spelling.h"

#include <algorithm>

namespace ingot::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // of SentencePiece

// "<0x0A>" is a byte; -1 for other tokens.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  return std::stoi(std::string(token.substr(3, 2)), nullptr, 16);
}

// What a token that is not an added one writes in the middle of a text.
std::string spelling(const Tokenizer& tokenizer, std::int32_t id) {
  if (tokenizer.decodes_token_wise()) return tokenizer.decode_bytes(std::span(&id, 1), false);
  const std::string_view token = tokenizer.id_to_token(id);
  if (const int byte = byte_of(token); byte >= 0) return std::string(1, static_cast<char>(byte));
  std::string out(token);
  for (std::size_t at = 0; (at = out.find(kSpaceMark, at)) != std::string::npos; ++at)
    out.replace(at, kSpaceMark.size(), " ");
  return out;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

}  // namespace

TokenSpelling::TokenSpelling(const Tokenizer& tokenizer)
    : added_(static_cast<std::size_t>(tokenizer.vocab_size())) {
  words_.reserve(added_.size());
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) words_.push_back(spelling(tokenizer, id));
  for (const AddedToken& token : tokenizer.added_tokens()) {
    added_[static_cast<std::size_t>(token.id)] = true;
    words_[static_cast<std::size_t>(token.id)] = token.content;
  }
}

std::vector<std::size_t> TokenSpelling::ends(std::string_view text, std::span<const std::int32_t> ids) const {
  std::vector<std::size_t> ends;
  ends.reserve(ids.size());
  std::size_t at = 0;
  bool behind_added = true;  // where SentencePiece puts a space that the text has not
  for (const std::int32_t id : ids) {
    const auto i = static_cast<std::size_t>(id);
    std::string_view word = words_[i];
    if (!text.substr(at).starts_with(word)) {
      const std::size_t next = skip_space(text, at);
      if ((added_[i] || behind_added) && text.substr(next).starts_with(word)) {
        at = next;
        if (behind_added && !ends.empty()) ends.back() = at;
      } else if (behind_added && word.starts_with(' ')) {
        word.remove_prefix(1);
      }
      if (!text.substr(at).starts_with(word)) return {};
    }
    at += word.size();
    ends.push_back(at);
    behind_added = added_[i];
  }
  if (!ends.empty() && behind_added) ends.back() = at = skip_space(text, at);
  return at == text.size() ? ends : std::vector<std::size_t>{};
}

}  // namespace ingot::text

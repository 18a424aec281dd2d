#include "ingot/text/added_tokens.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/text/unicode.h"

namespace ingot::text {

namespace {

std::size_t char_start_before(std::string_view text, std::size_t position) {
  do {
    --position;
  } while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  std::size_t i = char_start_before(text, text.size());
  return is_word_character(decode_utf8(text, i));
}

bool starts_with_word(std::string_view text) {
  std::size_t i = 0;
  return !text.empty() && is_word_character(decode_utf8(text, i));
}

std::size_t spaces_at_end(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    const std::size_t start = char_start_before(text, begin);
    std::size_t i = start;
    if (!is_white_space(decode_utf8(text, i))) break;
    begin = start;
  }
  return text.size() - begin;
}

std::size_t spaces_at_start(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    std::size_t i = end;
    if (!is_white_space(decode_utf8(text, i))) break;
    end = i;
  }
  return end;
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token) {
  constexpr std::size_t kLongest = 1024, kMostNodes = std::size_t{1} << 23;
  const std::string_view form = token.form;
  if (form.empty()) return;
  INGOT_CHECK(
      form.size() <= kLongest && nodes_.size() <= kMostNodes,
      InvalidConfig("added_tokens", fmt::format("the token of id {} has {} bytes, and those before "
                                                "take {}; at most {} and {} can be looked for",
                                                token.id, form.size(), nodes_.size(), kLongest, kMostNodes)));
  std::uint32_t node = 0;
  for (const char c : form) {
    const auto byte = static_cast<unsigned char>(c);
    auto& children = nodes_[node].children;
    const auto it =
        std::find_if(children.begin(), children.end(), [&](const auto& e) { return e.first == byte; });
    if (it != children.end()) {
      node = it->second;
      continue;
    }
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    children.emplace_back(byte, fresh);
    nodes_.emplace_back();
    node = fresh;
  }
  starts_[static_cast<unsigned char>(form.front())] = true;
  if (nodes_[node].token >= 0) return;  // the first token of a form wins
  nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, std::size_t position,
                                                std::size_t& length) const {
  const AddedToken* best = nullptr;
  std::uint32_t node = 0;
  for (std::size_t i = position; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto& children = nodes_[node].children;
    const auto it =
        std::find_if(children.begin(), children.end(), [&](const auto& e) { return e.first == byte; });
    if (it == children.end()) break;
    node = it->second;
    if (nodes_[node].token < 0) continue;
    best = &tokens_[static_cast<std::size_t>(nodes_[node].token)];
    length = i + 1 - position;
  }
  return best;
}

std::vector<AddedTokenMatcher::Segment> AddedTokenMatcher::split(std::string_view text,
                                                                 bool skip_special) const {
  std::vector<Segment> segments;
  std::size_t done = 0, spaces_end = 0;  // where the white space ends that was seen last
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = 0;
    const AddedToken* token =
        starts_[static_cast<unsigned char>(text[i])] ? longest_at(text, i, length) : nullptr;
    if (token == nullptr) {
      ++i;
      continue;
    }
    std::size_t begin = i, end = i + length;
    i = end;
    if (skip_special && token->special) continue;
    if (token->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
      continue;
    if (const std::size_t from = std::min(done, begin); token->lstrip)
      begin -= spaces_at_end(text.substr(from, begin - from));
    if (token->rstrip) {
      if (end >= spaces_end) spaces_end = end + spaces_at_start(text.substr(end));
      end = spaces_end;
    }
    if (done < begin) segments.push_back({text.substr(done, begin - done), nullptr});
    segments.push_back({text.substr(begin, end - begin), token});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), nullptr});
  return segments;
}

}  // namespace ingot::text

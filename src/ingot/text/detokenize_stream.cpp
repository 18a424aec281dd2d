#include "ingot/text/detokenize_stream.h"

#include <utility>

#include "ingot/base/utf8.h"

namespace ingot::text {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

DetokenizeStream::DetokenizeStream(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string DetokenizeStream::push(std::int32_t id) {
  return tokenizer_.decodes_token_wise() ? push_token_wise(id) : push_windowed(id);
}

std::string DetokenizeStream::push_token_wise(std::int32_t id) {
  bytes_ += tokenizer_.decode_bytes({&id, 1}, skip_special_tokens_);
  const std::size_t ready = bytes_.size() - incomplete_suffix(bytes_);
  std::string text = to_valid_utf8(std::string_view(bytes_).substr(0, ready));
  bytes_.erase(0, ready);
  return text;
}

/// Compares the text of a short window with and without the newest ids: what decoders do at the start of a
/// text (drop a space, say) happens to both and cancels out.
std::string DetokenizeStream::push_windowed(std::int32_t id) {
  ids_.push_back(id);
  const std::string before = tokenizer_.decode(std::span(ids_).first(shown_), skip_special_tokens_);
  const std::string text = tokenizer_.decode(ids_, skip_special_tokens_);
  if (text.size() <= before.size() || text.ends_with(kReplacement)) return {};
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(shown_));
  shown_ = ids_.size();
  return text.substr(before.size());
}

std::string DetokenizeStream::finish() {
  std::string text = to_valid_utf8(std::exchange(bytes_, {}));
  if (!ids_.empty()) {
    const std::string before = tokenizer_.decode(std::span(ids_).first(shown_), skip_special_tokens_);
    const std::string all = tokenizer_.decode(ids_, skip_special_tokens_);
    if (all.size() > before.size()) text = all.substr(before.size());
    ids_.clear();
    shown_ = 0;
  }
  return text;
}

}  // namespace ingot::text

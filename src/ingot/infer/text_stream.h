#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ingot/text/detokenize_stream.h"

namespace ingot::infer {

/// Lets text through up to the first stop string, or with it. What may be the beginning of one is held back.
/// It does not matter where the pieces of the text begin: the stop string that is complete first counts, of
/// two that end together the longer one.
class StopStrings {
 public:
  /// InvalidConfig where one is empty.
  explicit StopStrings(std::vector<std::string> stop, bool include = false);

  /// The text that is certain once `piece` has come.
  std::string push(const std::string& piece);
  /// What was held back, at the end of the text.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::size_t held_back() const;

  std::vector<std::string> stop_;
  bool include_;
  std::string held_;
  bool stopped_ = false;
};

/// Which special tokens are text.
struct SpecialText {
  bool skip = true;                  ///< false: all are
  std::vector<std::int32_t> kept{};  ///< of those that are skipped else
};

/// The text of a sequence while it is written: ids in, text out, as text::DetokenizeStream, up to the first
/// stop string; with `include_stop` what ended it, the string or the stop token, is part of it.
class TextStream {
 public:
  TextStream(const text::Tokenizer& tokenizer, std::vector<std::string> stop, SpecialText special = {},
             bool include_stop = false)
      : words_(tokenizer, special.skip && special.kept.empty()),
        tokenizer_(tokenizer),
        special_(std::move(special)),
        include_stop_(include_stop),
        stop_(std::move(stop), include_stop) {}

  std::string push(std::int32_t id) { return is_skipped(id) ? "" : stop_.push(words_.push(id)); }
  /// The rest, where it ends by `stop_token`; −1: by none.
  std::string finish(std::int32_t stop_token = -1) {
    std::string last = include_stop_ && stop_token >= 0 ? push(stop_token) : std::string();
    last += stop_.push(words_.finish());
    return last + stop_.finish();
  }
  bool stopped() const { return stop_.stopped(); }

 private:
  bool is_skipped(std::int32_t id) const {
    return special_.skip && !special_.kept.empty() && tokenizer_.is_special(id) &&
           std::ranges::find(special_.kept, id) == special_.kept.end();
  }

  text::DetokenizeStream words_;
  text::Tokenizer tokenizer_;
  SpecialText special_;
  bool include_stop_;
  StopStrings stop_;
};

}  // namespace ingot::infer

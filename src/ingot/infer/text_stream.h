#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ingot/text/detokenize_stream.h"

namespace ingot::infer {

/// Lets text through up to the first stop string. What may be the beginning of one is held back. It does not
/// matter where the pieces of the text begin: the stop string that is complete first counts, of two that end
/// together the longer one.
class StopStrings {
 public:
  /// InvalidConfig where one is empty.
  explicit StopStrings(std::vector<std::string> stop);

  /// The text that is certain once `piece` has come.
  std::string push(const std::string& piece);
  /// What was held back, at the end of the text.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::size_t held_back() const;

  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

/// Which special tokens are text.
struct SpecialText {
  bool skip = true;                  ///< false: all are
  std::vector<std::int32_t> kept{};  ///< of those that are skipped else
};

/// The text of a sequence while it is written: ids in, text out, as text::DetokenizeStream, up to the first
/// stop string.
class TextStream {
 public:
  TextStream(const text::Tokenizer& tokenizer, std::vector<std::string> stop, SpecialText special = {})
      : words_(tokenizer, special.skip && special.kept.empty()),
        tokenizer_(tokenizer),
        special_(std::move(special)),
        stop_(std::move(stop)) {}

  std::string push(std::int32_t id) { return is_skipped(id) ? "" : stop_.push(words_.push(id)); }
  std::string finish() { return stop_.push(words_.finish()) + stop_.finish(); }
  bool stopped() const { return stop_.stopped(); }

 private:
  bool is_skipped(std::int32_t id) const {
    return special_.skip && !special_.kept.empty() && tokenizer_.is_special(id) &&
           std::ranges::find(special_.kept, id) == special_.kept.end();
  }

  text::DetokenizeStream words_;
  text::Tokenizer tokenizer_;
  SpecialText special_;
  StopStrings stop_;
};

}  // namespace ingot::infer

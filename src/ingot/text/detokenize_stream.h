#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/text/tokenizer.h"

namespace ingot::text {

/// Turns ids into text one by one, for output that is shown while it is made. What push() and finish()
/// return, joined, is decode() of all ids; no part ever ends inside a character.
class DetokenizeStream {
 public:
  explicit DetokenizeStream(Tokenizer tokenizer, bool skip_special_tokens = true);

  /// The text that is certain once `id` has come; often empty inside a character.
  std::string push(std::int32_t id);
  /// What was held back: at the end a half character is U+FFFD.
  std::string finish();

 private:
  std::string push_token_wise(std::int32_t id);
  std::string push_windowed(std::int32_t id);

  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::string bytes_;              // of a character that is not complete
  std::vector<std::int32_t> ids_;  // the window: its first `shown_` ids are out already
  std::size_t shown_ = 0;
};

}  // namespace ingot::text

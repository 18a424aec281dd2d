#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ingot/text/tokenizer.h"

namespace ingot::text {

class JsonView;

/// The stage that puts special tokens around the ids of one text or of two. Every kind of tokenizer.json
/// comes down to a list of steps.
class PostProcessor {
 public:
  struct Step {
    enum class Kind { special, first, second } kind;
    std::vector<std::int32_t> ids;  // of special tokens
    std::int32_t type_id;
  };

  PostProcessor(std::vector<Step> single, std::vector<Step> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  /// One text.
  void apply(std::vector<std::int32_t>& ids) const;
  /// One text, or two when `second` is not null, with the number of the text at each id.
  Encoding apply(const std::vector<std::int32_t>& first, const std::vector<std::int32_t>* second,
                 bool add_special_tokens) const;

 private:
  std::vector<Step> single_, pair_;
};

/// The stage that the "post_processor" object of tokenizer.json describes; null when it adds nothing to ids.
std::unique_ptr<PostProcessor> make_post_processor(const JsonView& config);

/// What comes of two texts without a post-processor.
PostProcessor plain_post_processor();

}  // namespace ingot::text

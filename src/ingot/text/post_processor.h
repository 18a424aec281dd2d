#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"

namespace ingot::text {

class JsonView;

/// The stage that puts special tokens around the ids of a text.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void apply(std::vector<std::int32_t>& ids) const = 0;
};

/// The stage that the "post_processor" object of tokenizer.json describes.
std::unique_ptr<PostProcessor> make_post_processor(
    const JsonView& config, FunctionRef<std::optional<std::int32_t>(std::string_view)> id_of);

}  // namespace ingot::text

#pragma once

#include <memory>
#include <string>

namespace ingot::text {

class JsonView;

/// The stage that rewrites text before it is cut.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Rewrites `text` (valid UTF-8, and valid after).
  virtual void apply(std::string& text) const = 0;
};

/// The stage that the "normalizer" object of tokenizer.json describes.
std::unique_ptr<Normalizer> make_normalizer(const JsonView& config);

}  // namespace ingot::text

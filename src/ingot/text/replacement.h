#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ingot/text/regex.h"

namespace ingot::text {

class JsonView;

/// The "Replace" stage of normalizers and decoders: every match of a pattern becomes a fixed text.
class Replacement {
 public:
  /// {"pattern": {"String": ...} or {"Regex": ...}, "content": ...}
  explicit Replacement(const JsonView& config);
  void apply(std::string& text) const;

 private:
  std::string needle_;  // of a plain String pattern, which needs no regular expression
  std::optional<Regex> pattern_;
  std::string content_;
};

/// Throws Error where rules of a tokenizer made `now` bytes of `before`, more than any honest one does.
/// Chains of replacements multiply.
void check_growth(std::size_t now, std::size_t before);

/// Replaces every occurrence of `needle`, from left to right.
void replace_all(std::string& text, std::string_view needle, std::string_view content);

}  // namespace ingot::text

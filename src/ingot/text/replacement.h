#pragma once

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

/// Replaces every occurrence of `needle`, from left to right.
void replace_all(std::string& text, std::string_view needle, std::string_view content);

}  // namespace ingot::text

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "ingot/base/parallel.h"

namespace ingot::text {

/// A compiled regular expression in the dialect of tokenizer.json (Oniguruma's Ruby syntax as far as real
/// files use it: look-ahead, Unicode properties, inline flags), run by PCRE2's JIT. Safe to share between
/// threads.
class Regex {
 public:
  /// Throws InvalidConfig naming `where` when the pattern does not compile.
  Regex(std::string_view pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Calls match(begin, end) for each match in `text` (valid UTF-8), left to right, none overlapping. An
  /// empty match is reported and the search goes on one character later. Throws Error when a match needs more
  /// backtracking than the limits allow.
  void for_each_match(std::string_view text, FunctionRef<void(std::size_t, std::size_t)> match) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// `text` with every character that means something in a pattern escaped.
std::string escape_regex(std::string_view text);

}  // namespace ingot::text

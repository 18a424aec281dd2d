#pragma once

#include <cstddef>
#include <vector>

#include "ingot/text/pre_tokenizer.h"
#include "ingot/text/regex.h"

namespace ingot::text {

/// What becomes of the parts of a piece that a pattern matches.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

SplitBehavior parse_behavior(const JsonView& value);

/// {"Regex": pattern} or {"String": text}, compiled.
Regex compile_pattern(const JsonView& value);

/// Collects the matches inside one piece and emits what the behavior makes of them. With `invert` the parts
/// between the matches count as the matches.
class Splitter {
 public:
  Splitter(PieceList& list, const Piece& piece, SplitBehavior behavior, bool invert)
      : list_(list), piece_(piece), behavior_(behavior), invert_(invert) {}
  void match(std::size_t begin, std::size_t end);
  void finish();

 private:
  struct Part {
    std::size_t begin, end;
    bool matched;
  };
  void add(std::size_t begin, std::size_t end, bool matched);
  void emit(std::size_t begin, std::size_t end);

  PieceList& list_;
  const Piece& piece_;
  SplitBehavior behavior_;
  bool invert_;
  std::size_t done_ = 0;
  std::vector<Part> parts_;
};

}  // namespace ingot::text

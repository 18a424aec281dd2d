#include "ingot/text/splitting.h"

#include <fmt/format.h>

#include "ingot/text/json_view.h"

namespace ingot::text {

SplitBehavior parse_behavior(const JsonView& value) {
  const std::string name = value.string();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  value.fail(fmt::format("unknown behavior \"{}\"", name));
}

Regex compile_pattern(const JsonView& value) {
  if (value.is_string()) return Regex(escape_regex(value.string()), value.field());
  if (value.has("Regex"))
    return Regex(value.string("Regex"), fmt::format("{}: {}", value.file(), value.field()));
  return Regex(escape_regex(value.string("String")), value.field());
}

void Splitter::emit(std::size_t begin, std::size_t end) {
  list_.emit(piece_.text.substr(begin, end - begin), piece_.at_start && begin == 0);
}

void Splitter::add(std::size_t begin, std::size_t end, bool matched) {
  matched = matched != invert_;
  // The common behaviors need no memory of earlier parts.
  if (behavior_ == SplitBehavior::isolated) return emit(begin, end);
  if (behavior_ == SplitBehavior::removed) return matched ? void() : emit(begin, end);
  parts_.push_back({begin, end, matched});
}

void Splitter::match(std::size_t begin, std::size_t end) {
  if (begin > done_) add(done_, begin, false);
  add(begin, end, true);
  done_ = end;
}

void Splitter::finish() {
  if (done_ < piece_.text.size()) add(done_, piece_.text.size(), false);
  // The behaviors that join: decide for each part whether it starts a new piece.
  const std::size_t n = parts_.size();
  std::vector<bool> starts(n, true);
  for (std::size_t i = 1; i < n; ++i) {
    const bool before = parts_[i - 1].matched, here = parts_[i].matched;
    if (behavior_ == SplitBehavior::contiguous) starts[i] = here != before;
    if (behavior_ == SplitBehavior::merged_with_previous) starts[i] = !here || before;
    if (behavior_ == SplitBehavior::merged_with_next) starts[i] = !before || here;
  }
  for (std::size_t i = 0; i < n;) {
    std::size_t next = i + 1;
    while (next < n && !starts[next]) ++next;
    emit(parts_[i].begin, parts_[next - 1].end);
    i = next;
  }
}

}  // namespace ingot::text

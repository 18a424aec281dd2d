#include "ingot/infer/text_stream.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ingot/base/error.h"

namespace ingot::infer {

StopStrings::StopStrings(std::vector<std::string> stop, bool include)
    : stop_(std::move(stop)), include_(include) {
  for (const std::string& each : stop_)
    INGOT_CHECK(!each.empty(), InvalidConfig("stop", "is an empty string; every text would end at once"));
}

std::string StopStrings::push(const std::string& piece) {
  if (stopped_) return {};
  held_ += piece;
  std::size_t begin = std::string::npos, end = std::string::npos;
  for (const std::string& each : stop_) {
    const std::size_t at = held_.find(each);
    if (at == std::string::npos) continue;
    const std::size_t behind = at + each.size();
    if (behind < end || (behind == end && at < begin)) std::tie(begin, end) = std::pair(at, behind);
  }
  stopped_ = begin != std::string::npos;
  if (!stopped_) begin = held_.size() - held_back();
  const std::size_t shown = stopped_ && include_ ? end : begin;
  std::string certain = held_.substr(0, shown);
  held_.erase(0, shown);
  return certain;
}

std::string StopStrings::finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

// The longest end of the text that begins a stop string.
std::size_t StopStrings::held_back() const {
  const std::string_view text = held_;
  std::size_t longest = 0;
  for (const std::string_view each : stop_) {
    std::size_t length = std::min(each.size() - 1, text.size());
    while (length > longest && !text.ends_with(each.substr(0, length))) --length;
    longest = std::max(longest, length);
  }
  return longest;
}

}  // namespace ingot::infer

#include "ingot/infer/thinking_budget.h"

#include <algorithm>
#include <utility>

namespace ingot::infer {
namespace {

using Tokens = std::vector<std::int32_t>;

bool ends_with(const Tokens& tokens, std::span<const std::int32_t> marker) {
  return !marker.empty() && marker.size() <= tokens.size() &&
         std::equal(marker.rbegin(), marker.rend(), tokens.rbegin());
}

// How many of the last tokens begin the marker.
std::size_t begun(const Tokens& tokens, const Tokens& marker) {
  std::size_t length = std::min(tokens.size(), marker.size() - 1);
  while (length > 0 && !ends_with(tokens, std::span(marker).first(length))) --length;
  return length;
}

}  // namespace

ThinkingGuide::ThinkingGuide(ThinkingBudget budget) : budget_(std::move(budget)), left_(budget_.tokens) {
  if (budget_.closing.empty()) budget_.closing = budget_.end;
  if (budget_.begun) phase_ = Phase::thinking;
  if (budget_.begun && left_ == 0) phase_ = Phase::closing;
}

std::optional<std::int32_t> ThinkingGuide::forced() const {
  return phase_ == Phase::closing ? std::optional(budget_.closing[closed_]) : std::nullopt;
}

void ThinkingGuide::take(std::int32_t token) {
  if (phase_ == Phase::closing) {
    if (++closed_ == budget_.closing.size()) phase_ = Phase::outside;
    recent_.clear();
    return;
  }
  recent_.push_back(token);
  if (recent_.size() > std::max(budget_.begin.size(), budget_.end.size())) recent_.erase(recent_.begin());
  if (phase_ == Phase::outside) {
    if (!ends_with(recent_, budget_.begin)) return;
    phase_ = Phase::thinking;
    left_ = budget_.tokens + 1;  // this token is none of them
    recent_.clear();
  } else if (ends_with(recent_, budget_.end)) {
    phase_ = Phase::outside;
    recent_.clear();
    return;
  }
  if (--left_ > 0) return;
  phase_ = Phase::closing;
  closed_ = begun(recent_, budget_.closing);  // the model may be about to close them
}

}  // namespace ingot::infer

#include "ingot/infer/client_shares.h"

#include <algorithm>
#include <limits>

namespace ingot::infer {

ClientShare& ClientShares::begin(const std::string& client) {
  ClientShare& share = shares_[client];
  if (share.requests == 0) {
    constexpr std::int64_t kNobody = std::numeric_limits<std::int64_t>::max();
    std::int64_t least = kNobody;
    for (const auto& [name, other] : shares_)
      if (other.requests > 0) least = std::min(least, other.served);
    if (least != kNobody) share.served = std::max(share.served, least);
  }
  ++share.requests;
  return share;
}

}  // namespace ingot::infer

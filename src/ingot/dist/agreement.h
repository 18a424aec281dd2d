#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ingot/dist/communicator.h"

namespace ingot::dist {

/// What a rank says of itself: keys and values, for people to read.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// InvalidConfig on every rank, with the first key that some rank has another value of than rank 0, both
/// values, and `advice` on what to do.
void check_agreement(Communicator& communicator, const Settings& settings, const std::string& advice);

}  // namespace ingot::dist

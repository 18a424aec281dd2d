#pragma once

#include <string_view>

#include "ingot/mahjong/score.h"

namespace ingot::mahjong {

/// A called group as people write one: "777z", "456m", "1111p"; with a minus in front a concealed kan,
/// "-1111z". Throws InvalidHand for another number of tiles.
Meld parse_meld(std::string_view text);

}  // namespace ingot::mahjong

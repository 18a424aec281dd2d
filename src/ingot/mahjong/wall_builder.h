#pragma once

#include "ingot/mahjong/event.h"
#include "ingot/mahjong/rules.h"
#include "ingot/mahjong/wall.h"

namespace ingot::mahjong {

/// A wall that deals and draws what the events of one round show (StartKyoku first); tiles that they do not
/// show fill the rest in order. Throws InvalidHand if the events need more of a tile than there are.
Wall build_wall(const Rules& rules, const Events& events);

}  // namespace ingot::mahjong

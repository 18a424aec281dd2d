#pragma once

#include "ingot/base/error.h"

namespace ingot::mahjong {

/// Tiles that cannot be a hand: five of a kind, a wrong number of tiles, unreadable notation.
class InvalidHand : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "invalid_hand"; }
};

/// An action that the rules do not allow now. The table it was tried on is unchanged.
class IllegalAction : public Error {
 public:
  using Error::Error;
  std::string_view kind() const noexcept override { return "illegal_action"; }
};

}  // namespace ingot::mahjong

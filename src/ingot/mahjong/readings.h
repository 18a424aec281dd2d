#pragma once

#include "ingot/mahjong/hand.h"

namespace ingot::mahjong {

/// A concealed triplet, or a run that starts at `kind`.
struct Group {
  Kind kind;
  bool run;
  bool contains(Kind k) const { return run ? k >= kind && k <= kind + 2 : k == kind; }
};

/// One way to split the concealed tiles of a complete hand.
struct Reading {
  std::array<Group, 4> groups;
  std::uint8_t size;
  Kind pair;
};

/// A hand has few: three equal triplets in a row read as runs too, and pairs may be placed differently.
struct ReadingList {
  std::array<Reading, 16> items;
  int size = 0;
};

/// All standard readings of 3 * groups + 2 concealed tiles; none if the hand is not complete.
ReadingList read_standard(const Hand& hand, int groups);

}  // namespace ingot::mahjong

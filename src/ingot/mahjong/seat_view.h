#pragma once

#include "ingot/mahjong/table.h"

// What the built-in players read off an observation.
namespace ingot::mahjong {

inline const Seat& own_seat(const Observation& o) { return o.pub.seats[o.seat]; }

/// A triplet of it is a yaku for this seat.
inline bool is_yakuhai(const Observation& o, Kind kind) {
  return kind >= 31 || kind == 27 + o.pub.round_wind() % 4 || kind == 27 + o.pub.seat_wind(o.seat);
}

inline KindSet dora_kinds(const Observation& o) {
  KindSet kinds = 0;
  for (const Tile tile : o.pub.indicator_span()) kinds |= bit(dora_of(kind_of(tile)));
  return kinds;
}

/// What a discarder pays, about, for so many han (a fraction lies between two) at a usual number of fu.
double points_of_han(double han, bool dealer, bool open);

}  // namespace ingot::mahjong

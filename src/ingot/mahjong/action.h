#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ingot/mahjong/tile.h"

namespace ingot::mahjong {

enum class ActionType : std::uint8_t {
  Discard,
  Riichi,  ///< the declaration; the discard is the next action of the same player
  Chi,
  Pon,
  Daiminkan,
  Ankan,
  Kakan,
  Tsumo,
  Ron,
  NineOrphans,  ///< kyuushu kyuuhai
  Pass
};

/// One decision, four plain bytes. Build it with the functions below; unused fields are kNoTile.
struct Action {
  ActionType type;
  Tile tile;  ///< discarded, called, or added; of an ankan its kind
  Tile a,
      b;  ///< chi, pon: the two tiles from the hand, a <= b by kind. Discard: a is 1 for the tile just drawn

  static constexpr Action discard(Tile tile, bool tsumogiri) {
    return {ActionType::Discard, tile, static_cast<Tile>(tsumogiri), kNoTile};
  }
  static constexpr Action chi(Tile called, Tile a, Tile b) {
    return kind_of(a) < kind_of(b) ? Action{ActionType::Chi, called, a, b}
                                   : Action{ActionType::Chi, called, b, a};
  }
  /// A red five comes second.
  static constexpr Action pon(Tile called, Tile a, Tile b) {
    return a < b ? Action{ActionType::Pon, called, a, b} : Action{ActionType::Pon, called, b, a};
  }
  static constexpr Action daiminkan(Tile called) { return {ActionType::Daiminkan, called, kNoTile, kNoTile}; }
  static constexpr Action ankan(Kind kind) { return {ActionType::Ankan, kind, kNoTile, kNoTile}; }
  static constexpr Action kakan(Tile added) { return {ActionType::Kakan, added, kNoTile, kNoTile}; }
  static constexpr Action of(ActionType type) { return {type, kNoTile, kNoTile, kNoTile}; }
  static constexpr Action pass() { return of(ActionType::Pass); }

  bool tsumogiri() const { return a == 1; }
  friend bool operator==(const Action&, const Action&) = default;
};

/// "discard 5mr", "chi 3p with 4p 5pr", for messages.
std::string to_string(const Action& action);

/// The legal actions of one player: at most 14 discards, the drawn tile among them once more as such, kans,
/// and a few calls.
class ActionList {
 public:
  ActionList() : size_(0) {}
  void push(const Action& action) { items_[size_++] = action; }
  /// For writing many: where the next action goes, and where writing stopped. A size kept in a register
  /// instead of in memory halves the time of listing discards, which is much of the time of a random game.
  Action* cursor() { return items_.data() + size_; }
  void set_cursor(const Action* end) { size_ = static_cast<std::size_t>(end - items_.data()); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Action& operator[](std::size_t i) const { return items_[i]; }
  const Action* begin() const { return items_.data(); }
  const Action* end() const { return items_.data() + size_; }
  bool contains(const Action& action) const {
    for (const Action& one : *this)
      if (one == action) return true;
    return false;
  }
  const Action* find(ActionType type) const {
    for (const Action& one : *this)
      if (one.type == type) return &one;
    return nullptr;
  }

 private:
  std::array<Action, 48> items_;
  std::size_t size_;
};

}  // namespace ingot::mahjong

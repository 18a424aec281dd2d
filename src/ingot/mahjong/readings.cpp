#include "ingot/mahjong/readings.h"

#include "ingot/mahjong/score.h"

namespace ingot::mahjong {
namespace {

class Splitter {
 public:
  Splitter(const Hand& hand, int groups, ReadingList& out) : wanted_(groups), out_(out) {
    for_each_kind(hand.count.kinds(),
                  [&](Kind kind) { count_[kind] = static_cast<std::uint8_t>(hand.count[kind]); });
  }

  void run(Kind pair) {
    reading_.pair = pair;
    reading_.size = 0;
    count_[pair] = static_cast<std::uint8_t>(count_[pair] - 2);
    split(0);
    count_[pair] = static_cast<std::uint8_t>(count_[pair] + 2);
  }

 private:
  // Takes the lowest tile left into a triplet or a run; each split is met once.
  void split(std::size_t kind) {
    while (kind < kKinds && count_[kind] == 0) ++kind;
    if (kind == kKinds) {
      if (reading_.size == wanted_ && out_.size < static_cast<int>(out_.items.size()))
        out_.items[static_cast<std::size_t>(out_.size++)] = reading_;
      return;
    }
    if (reading_.size == wanted_) return;
    auto& group = reading_.groups[reading_.size];
    if (count_[kind] >= 3) {
      group = {static_cast<Kind>(kind), false};
      ++reading_.size;
      count_[kind] = static_cast<std::uint8_t>(count_[kind] - 3);
      split(kind);
      count_[kind] = static_cast<std::uint8_t>(count_[kind] + 3);
      --reading_.size;
    }
    if (kind < 27 && kind % 9 < 7 && count_[kind + 1] > 0 && count_[kind + 2] > 0) {
      group = {static_cast<Kind>(kind), true};
      ++reading_.size;
      for (std::size_t i = 0; i < 3; ++i) --count_[kind + i];
      split(kind);
      for (std::size_t i = 0; i < 3; ++i) ++count_[kind + i];
      --reading_.size;
    }
  }

  std::array<std::uint8_t, kKinds> count_{};
  int wanted_;
  ReadingList& out_;
  Reading reading_{};
};

}  // namespace

ReadingList read_standard(const Hand& hand, int groups) {
  ReadingList readings;
  std::array<int, 4> tiles{};
  for_each_kind(hand.count.kinds(), [&](Kind kind) { tiles[kind / 9] += hand.count[kind]; });
  int pair_suit = -1;  // every other suit must be whole groups
  for (int suit = 0; suit < 4; ++suit) {
    const int rest = tiles[static_cast<std::size_t>(suit)] % 3;
    if (rest == 1 || (rest == 2 && pair_suit >= 0)) return readings;
    if (rest == 2) pair_suit = suit;
  }
  if (pair_suit < 0) return readings;
  Splitter splitter(hand, groups, readings);
  for_each_kind(hand.count.pairs() & KindSet{0x1FF} << (9 * pair_suit),
                [&](Kind kind) { splitter.run(kind); });
  return readings;
}

int count_readings(const Hand& hand, int melds) { return read_standard(hand, 4 - melds).size; }

}  // namespace ingot::mahjong

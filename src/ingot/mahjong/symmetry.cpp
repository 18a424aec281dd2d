#include "ingot/mahjong/symmetry.h"

namespace ingot::mahjong {
namespace {

Meld permuted(const SuitPermutation& p, Meld meld) {
  meld.called = p.tile(meld.called);
  for (Tile& tile : meld.consumed) tile = p.tile(tile);
  return meld;
}

PublicState permuted(const SuitPermutation& p, const PublicState& pub) {
  PublicState out = pub;
  for (Seat& seat : out.seats) {
    seat.river_kinds = p.kinds(seat.river_kinds);
    seat.tedashi_kinds = p.kinds(seat.tedashi_kinds);
    seat.safe_after_riichi = p.kinds(seat.safe_after_riichi);
    for (std::size_t i = 0; i < seat.meld_count; ++i) seat.melds[i] = permuted(p, seat.melds[i]);
  }
  out.kuikae = p.kinds(pub.kuikae & kAllKinds);
  for (std::size_t i = 0; i < out.river_size; ++i) {
    auto& bits = out.river[i].bits;
    bits = static_cast<std::uint16_t>((bits & ~0x3FU) | p.tile(pub.river[i].tile()));
  }
  for (Kind kind = 0; kind < kKinds; ++kind) out.seen.set(p.kind(kind), pub.seen[kind]);
  for (std::size_t i = 0; i < out.indicator_count; ++i) out.indicators[i] = p.tile(pub.indicators[i]);
  out.claimed = p.tile(pub.claimed);
  for (std::size_t suit = 0; suit < 3; ++suit) out.rules.red_fives[p.to[suit]] = pub.rules.red_fives[suit];
  return out;
}

PrivateState permuted(const SuitPermutation& p, const PrivateState& own) {
  PrivateState out = own;
  out.hand = p.hand(own.hand);
  out.waits = p.kinds(own.waits) & kAllKinds;
  out.drawn = p.tile(own.drawn);
  return out;
}

}  // namespace

SuitPermutation SuitPermutation::number(int index) {
  constexpr std::uint8_t table[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  INGOT_ASSERT(index >= 0 && index < 6);
  const auto& row = table[index];
  return {{row[0], row[1], row[2]}};
}

SuitPermutation SuitPermutation::inverse() const {
  SuitPermutation back;
  for (std::uint8_t suit = 0; suit < 3; ++suit) back.to[to[suit]] = suit;
  return back;
}

KindSet SuitPermutation::kinds(KindSet set) const {
  KindSet out = set & kHonors;
  for (std::size_t suit = 0; suit < 3; ++suit) out |= (set >> (9 * suit) & 0x1FF) << (9 * to[suit]);
  return out;
}

Action SuitPermutation::action(const Action& action) const {
  Action out = action;
  out.tile = tile(action.tile);
  if (action.type == ActionType::Chi || action.type == ActionType::Pon) {
    out.a = tile(action.a);
    out.b = tile(action.b);
  }
  return out;
}

Hand SuitPermutation::hand(const Hand& hand) const {
  Hand out = hand;
  for (Kind k = 0; k < 27; ++k) out.count.set(kind(k), hand.count[k]);
  for (std::size_t suit = 0; suit < 3; ++suit) {
    out.red[to[suit]] = hand.red[suit];
    out.suit[to[suit]] = hand.suit[suit];
  }
  return out;
}

Observation SuitPermutation::observation(const Observation& o) const {
  Observation out = o;
  out.pub = permuted(*this, o.pub);
  out.own = permuted(*this, o.own);
  return out;
}

Table SuitPermutation::table(const Table& t) const {
  Table out = t;
  out.pub = permuted(*this, t.pub);
  for (std::size_t p = 0; p < 4; ++p) {
    out.own[p] = permuted(*this, t.own[p]);
    out.responses[p] = action(t.responses[p]);
  }
  for (TileId& id : out.wall) id = static_cast<TileId>(4 * kind(static_cast<Kind>(id / 4)) + id % 4);
  return out;
}

void SuitPermutation::encoding(std::span<const float> in, std::span<float> out) const {
  INGOT_CHECK(in.size() == out.size() && in.size() % kKinds == 0,
              ShapeMismatch("SuitPermutation::encoding", {static_cast<std::int64_t>(in.size())},
                            {static_cast<std::int64_t>(out.size())}, "use channels * 34 floats for both"));
  for (std::size_t row = 0; row < in.size() / kKinds; ++row) {
    const std::size_t target = row >= 40 && row < 43 ? 40U + to[row - 40] : row;
    for (Kind k = 0; k < kKinds; ++k) out[target * kKinds + kind(k)] = in[row * kKinds + k];
  }
}

bool SuitPermutation::keeps_score(KindSet kinds_of_win) const {
  return ((kinds_of_win & ~kGreens) == 0) == ((kinds(kinds_of_win) & ~kGreens) == 0);
}

}  // namespace ingot::mahjong

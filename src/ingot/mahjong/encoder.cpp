#include "ingot/mahjong/encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "ingot/mahjong/policy.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/simd.h"

// Every row is described by 64 bits (a set of kinds, or the value it is filled with), so that a row need be
// written only when its description changed. Decay rows are written apart; the halves of the suji rows 71-73
// are the sets of rows 74-76.
namespace ingot::mahjong {
namespace {

constexpr KindSet kSuited = bit(27) - 1;
constexpr KindSet make_number_set(int number) {
  return bit(static_cast<Kind>(number)) | bit(static_cast<Kind>(9 + number)) |
         bit(static_cast<Kind>(18 + number));
}
constexpr KindSet kLowNumbers = make_number_set(0) | make_number_set(1) | make_number_set(2);
constexpr KindSet kMiddleNumbers = make_number_set(3) | make_number_set(4) | make_number_set(5);
constexpr KindSet kHighNumbers = make_number_set(6) | make_number_set(7) | make_number_set(8);

using simd::RowType;

constexpr std::size_t kRows = kChannels + kContextChannels;
constexpr std::size_t kFirstSuji = 71, kFirstHalfSuji = 74;
constexpr std::size_t decay_row(std::size_t player) { return 13 + 3 * player; }
constexpr auto kRowTypes = [] {
  std::array<RowType, kRows> types{};
  for (std::size_t row = 40; row <= 61; ++row) types[row] = RowType::Fill;
  for (std::size_t row = 82; row <= 85; ++row) types[row] = RowType::Fill;
  types[88] = RowType::Fill;
  for (std::size_t row = 91; row <= 95; ++row) types[row] = RowType::Fill;
  return types;
}();

void write_halves(KindSet half, float* out) {
  for_each_kind(half, [&](Kind kind) { out[kind] = 0.5F; });
}

// exp(-0.2 * dt) of the latest discard of each kind, dt in the player's own discards, at most 30.
using DecayTable = std::array<float, simd::kDecayAges + 1>;
const DecayTable& decay_table() {
  static const auto table = [] {
    DecayTable values{};
    for (std::size_t dt = 0; dt < simd::kDecayAges; ++dt)
      values[dt] = static_cast<float>(std::exp(-0.2 * static_cast<double>(dt)));
    return values;
  }();
  return table;
}

using Latest = std::array<std::array<std::uint8_t, kKinds>, 4>;

// Later discards overwrite earlier ones.
void note_discard(RiverTile tile, Latest& latest) {
  latest[static_cast<std::size_t>(tile.player())][kind_of(tile.tile())] =
      static_cast<std::uint8_t>(tile.turn());
}

// The decay rows of all players, which are zeros before.
void write_decays(const Observation& o, float* rows) {
  const DecayTable& decay = decay_table();
  std::array<float*, 4> row;
  std::array<unsigned, 4> last;
  for (std::size_t player = 0; player < 4; ++player) {
    row[player] = rows + decay_row((player + 4 - o.seat) % 4) * kKinds;
    last[player] = o.pub.seats[player].discards - 1U;
  }
  for (std::size_t i = 0; i < o.pub.river_size; ++i) {
    const RiverTile tile = o.pub.river[i];
    const auto player = static_cast<std::size_t>(tile.player());
    const std::size_t age = std::min<std::size_t>(last[player] - tile.turn(), simd::kDecayAges - 1);
    row[player][kind_of(tile.tile())] = decay[age];
  }
}

void write_decay(const Observation& o, std::size_t player, const Latest& latest, float* rows) {
  const Seat& seat = o.pub.seats[player];
  simd::write_decay_row(seat.river_kinds, latest[player], seat.discards - 1U, decay_table().data(),
                        rows + decay_row((player + 4 - o.seat) % 4) * kKinds);
}

// Rows 4 to 39 begin as zeros: most of them are gathered bit by bit. The others are assigned.
struct Rows {
  std::span<std::uint64_t> key;
  explicit Rows(std::span<std::uint64_t> keys) : key(keys) {
    // As 36 stores, which become 18; a loop becomes a `rep stos`, which takes longer than all of meld_rows.
    [&]<std::size_t... i>(std::index_sequence<i...>) { ((key[4 + i] = 0), ...); }
    (std::make_index_sequence<36>());
  }
  void fill(std::size_t row, float value) { key[row] = std::bit_cast<std::uint32_t>(value); }
};

void meld_rows(const PublicState& pub, std::size_t seat, Rows& rows) {
  for (std::size_t p = 0; p < 4; ++p)
    for (const Meld& meld : pub.seats[(seat + p) % 4].meld_span()) {
      const Kind kind = meld.kind();
      if (meld.type == MeldType::Chi)
        rows.key[23 + 3 * p] |= KindSet{7} << kind;
      else
        rows.key[(meld.is_kan() ? 25 : 24) + 3 * p] |= bit(kind);
    }
  const KindCounts own = count_tiles(pub.seats[seat].meld_span());
  rows.key[4] = own.kinds();
  rows.key[5] = own.pairs();
  rows.key[6] = own.triplets();
  rows.key[7] = own.quads();
}

void meta_rows(const Observation& o, Rows& rows) {
  const PublicState& pub = o.pub;
  for (const Tile tile : pub.indicator_span()) {
    std::size_t row = 35;
    while ((rows.key[row] >> kind_of(tile) & 1) != 0) ++row;
    rows.key[row] |= bit(kind_of(tile));
  }
  for (std::size_t suit = 0; suit < 3; ++suit) rows.fill(40 + suit, o.own.hand.red[suit] > 0 ? 1.0F : 0.0F);
  for (std::size_t p = 0; p < 4; ++p)
    rows.fill(43 + p, pub.seats[(o.seat + p) % 4].riichi != RiichiState::None ? 1.0F : 0.0F);
  rows.fill(59, static_cast<float>(pub.round) / 8.0F);
  rows.fill(60, static_cast<float>(pub.honba) / 10.0F);
  rows.fill(61, static_cast<float>(pub.sticks) / 10.0F);
}

void score_rows(const Observation& o, const EncoderOptions& options, Rows& rows) {
  const std::int32_t mine = o.pub.seats[o.seat].score;
  for (std::size_t p = 0; p < 4; ++p) {
    const std::int32_t score = o.pub.seats[(o.seat + p) % 4].score;
    const auto ahead = static_cast<float>(options.old_gap_sign ? score - mine : mine - score);
    rows.fill(47 + p, static_cast<float>(score) / 100000.0F);
    rows.fill(51 + p, ahead / 30000.0F);
  }
}

// Which discards keep or lower the shanten that the hand had before its draw.
void shanten_rows(const Observation& o, Rows& rows) {
  const Hand& hand = o.own.hand;
  const int melds = o.pub.seats[o.seat].meld_count;
  int now = 0;
  if (hand.size % 3 == 2) {
    const BestDiscards best = best_discards(hand, melds);
    const Tile drawn = o.own.drawn;
    const bool nearer = drawn != kNoTile && (best.kinds >> kind_of(drawn) & 1) == 0;
    rows.key[9] = nearer ? hand.count.kinds() : best.kinds;
    rows.key[10] = nearer ? best.kinds : 0;
    now = best.shanten;
  } else {
    now = std::max(shanten(hand, melds), 0);
  }
  for (int i = 0; i < 4; ++i)
    rows.fill(static_cast<std::size_t>(55 + i), i == std::min(now, 3) ? 1.0F : 0.0F);
}

KindSet own_discards_after_riichi(const PublicState& pub, int player) {
  KindSet set = 0;
  bool since = false;
  for (std::size_t i = 0; i < pub.river_size; ++i) {
    const RiverTile tile = pub.river[i];
    if (tile.player() != player) continue;
    since |= tile.riichi();
    if (since) set |= bit(kind_of(tile.tile()));
  }
  return set;
}

void visible_rows(const Observation& o, const EncoderOptions& options, Rows& rows) {
  KindCounts visible;
  if (options.old_visible) {
    for (std::size_t i = 0; i < o.pub.river_size; ++i)
      if (o.pub.river[i].player() != o.seat) visible.add(kind_of(o.pub.river[i].tile()));
    for (const Seat& seat : o.pub.seats)
      for (const Meld& meld : seat.meld_span())
        for (std::size_t i = 0; i < 3 && meld.type != MeldType::Ankan; ++i)
          if (meld.consumed[i] != kNoTile && !(meld.type == MeldType::Kakan && i == 2))
            visible.add(kind_of(meld.consumed[i]));
  } else {
    visible = o.pub.seen + o.own.hand.count;
  }
  rows.key[80] = visible.quads();
  rows.key[81] = visible.triplets() & ~visible.quads();
}

void safety_rows(const Observation& o, const EncoderOptions& options, Rows& rows) {
  const PublicState& pub = o.pub;
  for (std::size_t i = 0; i < 3; ++i) {
    const int player = (o.seat + 1 + static_cast<int>(i)) % 4;
    const Seat& seat = pub.seats[static_cast<std::size_t>(player)];
    const bool riichi = seat.riichi != RiichiState::None;
    const KindSet after =
        options.old_genbutsu && riichi ? own_discards_after_riichi(pub, player) : seat.safe_after_riichi;
    const KindSet safe = options.old_genbutsu ? seat.river_kinds : seat.river_kinds | seat.safe_after_riichi;
    const KindSet tedashi = seat.tedashi_kinds;
    const std::size_t first = options.old_safety_order ? 62 + 3 * i : 62 + i,
                      step = options.old_safety_order ? 1 : 3;
    rows.key[first] = safe;
    rows.key[first + step] = tedashi;
    rows.key[first + 2 * step] = after;
    const KindSet above = safe >> 3 & kSuited & ~kHighNumbers, below = safe << 3 & kSuited & ~kLowNumbers;
    const KindSet half = (above ^ below) & kMiddleNumbers;
    rows.key[kFirstSuji + i] =
        (above & kLowNumbers) | (below & kHighNumbers) | (above & below & kMiddleNumbers);
    rows.key[kFirstHalfSuji + i] = half;
    const KindSet suited = tedashi & kSuited;
    rows.key[77 + i] = ((suited & ~make_number_set(8)) << 1) | ((suited & ~make_number_set(0)) >> 1);
    rows.fill(82 + i, riichi ? 1.0F : 0.0F);
  }
  visible_rows(o, options, rows);
}

void context_rows(const Observation& o, Rows& rows) {
  rows.fill(85, static_cast<float>(o.pub.live_left) / 70.0F);
  rows.key[86] = bit(static_cast<Kind>(27 + o.pub.round_wind() % 4));
  rows.key[87] = bit(static_cast<Kind>(27 + o.pub.seat_wind(o.seat)));
  rows.fill(88, is_furiten(o.pub, o.own, o.seat) ? 1.0F : 0.0F);
  rows.key[89] = o.own.waits;
  const std::uint64_t mask = policy_mask(legal_actions(o));
  rows.key[90] = mask & kAllKinds;
  for (Tile red = 34; red < kTiles; ++red)
    if ((mask >> red & 1) != 0) rows.key[90] |= bit(kind_of(red));
  rows.fill(91, (mask >> kPolicyRiichi & 1) != 0 ? 1.0F : 0.0F);
  rows.fill(92, (mask >> kPolicyChiLow & 7) != 0 ? 1.0F : 0.0F);
  rows.fill(93, (mask >> kPolicyPon & 1) != 0 ? 1.0F : 0.0F);
  rows.fill(94, (mask >> kPolicyKan & 1) != 0 ? 1.0F : 0.0F);
  rows.fill(95, (mask >> kPolicyWin & 1) != 0 ? 1.0F : 0.0F);
}

// Everything but the melds (4-7, 23-34), the shanten rows (9, 10, 55-58), the scores (47-54) and the decays,
// which are costly and seldom change.
void describe(const Observation& o, const EncoderOptions& options, Rows& rows) {
  const Hand& hand = o.own.hand;
  rows.key[0] = hand.count.kinds();
  rows.key[1] = hand.count.pairs();
  rows.key[2] = hand.count.triplets();
  rows.key[3] = hand.count.quads();
  if (o.own.drawn != kNoTile) rows.key[8] = bit(kind_of(o.own.drawn));
  for (std::size_t p = 0; p < 4; ++p) {
    const Seat& seat = o.pub.seats[(o.seat + p) % 4];
    rows.key[11 + 3 * p] = seat.river_kinds;
    rows.key[12 + 3 * p] = seat.tedashi_kinds;
  }
  meta_rows(o, rows);
  safety_rows(o, options, rows);
  if (options.context) context_rows(o, rows);
}

// Whether `river` begins as `known` does; a discard that was claimed meanwhile is the same discard.
bool begins_with(const RiverTile* river, const RiverTile* known, std::size_t count) {
  constexpr std::uint64_t kSame = ~(kRiverCalled * std::uint64_t{0x0001000100010001});
  std::uint64_t differ = 0;
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    std::uint64_t a, b;
    std::memcpy(&a, river + i, sizeof a);
    std::memcpy(&b, known + i, sizeof b);
    differ |= (a ^ b) & kSame;
  }
  for (; i < count; ++i) differ |= (river[i].bits ^ known[i].bits) & kSame;
  return differ == 0;
}

// Rows that keys describe: all but the outlook's.
std::size_t described(const EncoderOptions& options) {
  return static_cast<std::size_t>(options.channels() - (options.outlook ? kOutlookChannels : 0));
}

void write_outlook(const Observation& o, const EncoderOptions& options, std::span<float> out) {
  if (options.outlook) encode_outlook(o, out.subspan(described(options) * kKinds));
}

}  // namespace

void encode(const Observation& o, std::span<float> out, const EncoderOptions& options) {
  const auto count = static_cast<std::size_t>(options.channels());
  INGOT_CHECK(out.size() == count * kKinds, ShapeMismatch("mahjong::encode", {options.channels(), kKinds},
                                                          {static_cast<std::int64_t>(out.size())}));
  std::array<std::uint64_t, kRows> keys;
  Rows rows(keys);
  describe(o, options, rows);
  meld_rows(o.pub, o.seat, rows);
  score_rows(o, options, rows);
  shanten_rows(o, rows);
  simd::write_rows(rows.key.data(), kRowTypes.data(), described(options), out.data());
  for (std::size_t i = 0; i < 3; ++i)
    write_halves(rows.key[kFirstHalfSuji + i], out.data() + (kFirstSuji + i) * kKinds);
  write_decays(o, out.data());
  write_outlook(o, options, out);
}

// Brings latest_ up to the river; bit per absolute seat whose decay row changed.
unsigned IncrementalEncoder::follow_river(const Observation& o) {
  const PublicState& pub = o.pub;
  unsigned stale = 0;
  const bool follows = seat_ == o.seat && river_size_ <= pub.river_size &&
                       begins_with(pub.river.data(), river_.data(), river_size_);
  if (!follows) {
    stale = 15;
    river_size_ = 0;
  }
  for (; river_size_ < pub.river_size; ++river_size_) {
    const RiverTile tile = pub.river[river_size_];
    river_[river_size_] = tile;
    note_discard(tile, latest_);
    stale |= 1U << tile.player();
  }
  return stale;
}

// Notes the melds; whether the rows of melds must be described again. Places that hold no meld are compared
// with the others: that is quicker, and at worst says too much.
bool IncrementalEncoder::follow_melds(const Observation& o) {
  std::uint64_t differ = started_ ? seat_ ^ o.seat : 1U;
  for (std::size_t p = 0; p < 4; ++p) {
    const Seat& seat = o.pub.seats[p];
    const SeatMelds now{seat.melds, {seat.meld_count}};
    std::array<std::uint64_t, sizeof(SeatMelds) / 8> a, b;
    std::memcpy(a.data(), &now, sizeof now);
    std::memcpy(b.data(), &melds_[p], sizeof now);
    for (std::size_t i = 0; i < a.size(); ++i) differ |= a[i] ^ b[i];
  }
  if (differ == 0) return false;
  for (std::size_t p = 0; p < 4; ++p) melds_[p] = {o.pub.seats[p].melds, {o.pub.seats[p].meld_count}};
  return true;
}

int IncrementalEncoder::rows_written() const {
  return std::popcount(changed_[0]) + std::popcount(changed_[1]) + std::popcount(decays_written_);
}

std::span<const float> IncrementalEncoder::encode(const Observation& o) {
  const auto count = static_cast<std::size_t>(options_.channels());
  const auto& before = keys_[latest_keys_];
  auto& keys = keys_[1 - latest_keys_];
  Rows rows(keys);
  describe(o, options_, rows);
  const auto keep = [&](std::size_t first, std::size_t last) {
    std::copy(before.begin() + first, before.begin() + last + 1, keys.begin() + first);
  };
  if (follow_melds(o)) {
    meld_rows(o.pub, o.seat, rows);
  } else {
    keep(4, 7);
    keep(23, 34);
  }
  std::int32_t moved = 0;
  for (std::size_t p = 0; p < 4; ++p) moved |= o.pub.seats[p].score ^ scores_[p];
  if (started_ && moved == 0 && seat_ == o.seat) {
    keep(47, 54);
  } else {
    score_rows(o, options_, rows);
    for (std::size_t p = 0; p < 4; ++p) scores_[p] = o.pub.seats[p].score;
  }
  const auto& suit = o.own.hand.suit;
  const HandKey hand{suit[0] | std::uint64_t{suit[1]} << 32, suit[2] | std::uint64_t{suit[3]} << 32,
                     std::uint64_t{o.own.drawn} << 8 | o.pub.seats[o.seat].meld_count};
  if (started_ && hand == hand_) {
    keep(9, 10);
    keep(55, 58);
  } else {
    shanten_rows(o, rows);
    hand_ = hand;
  }
  // The rivers come between so that the keys are in the cache before whole registers of them are read.
  const unsigned stale = follow_river(o);
  for (unsigned rest = stale; rest != 0; rest &= rest - 1)
    write_decay(o, static_cast<std::size_t>(__builtin_ctz(rest)), latest_, rows_.data());
  auto& changed = changed_;
  simd::find_changes(keys, before, changed);
  latest_keys_ = 1 - latest_keys_;
  changed[1] |= changed[1] >> (kFirstHalfSuji - kFirstSuji) & std::uint64_t{7} << (kFirstSuji - 64);
  simd::write_some_rows(keys.data(), kRowTypes.data(), changed, rows_.data());
  for (std::uint64_t suji = changed[1] & std::uint64_t{7} << (kFirstSuji - 64); suji != 0; suji &= suji - 1) {
    const auto row = 64 + static_cast<std::size_t>(__builtin_ctzll(suji));
    write_halves(keys[row + kFirstHalfSuji - kFirstSuji], rows_.data() + row * kKinds);
  }
  decays_written_ = stale;
  seat_ = o.seat;
  started_ = true;
  const std::span<float> all(rows_.data(), count * kKinds);
  write_outlook(o, options_, all);
  return all;
}

}  // namespace ingot::mahjong

#include "ingot/mahjong/encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ingot/mahjong/policy.h"
#include "ingot/mahjong/shanten.h"

// Every row is described by 64 bits (a set of kinds, or the value it is filled with; suji rows by two sets),
// so that a row need be written only when its description changed. Writing takes eight floats at a time from
// a table of the 256 patterns.
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

enum class RowType : std::uint8_t { Set, Fill, Decay, Halves };

constexpr std::size_t kRows = kChannels + kContextChannels;
constexpr auto kRowTypes = [] {
  std::array<RowType, kRows> types{};
  for (std::size_t row = 40; row <= 61; ++row) types[row] = RowType::Fill;
  for (std::size_t player = 0; player < 4; ++player) types[13 + 3 * player] = RowType::Decay;
  for (std::size_t row = 71; row <= 73; ++row) types[row] = RowType::Halves;
  for (std::size_t row = 82; row <= 85; ++row) types[row] = RowType::Fill;
  types[88] = RowType::Fill;
  for (std::size_t row = 91; row <= 95; ++row) types[row] = RowType::Fill;
  return types;
}();

using Eight = float __attribute__((vector_size(32)));
using Row = float[kKinds];

struct PatternTable {
  alignas(32) float rows[256][8];
  constexpr PatternTable() : rows() {
    for (int pattern = 0; pattern < 256; ++pattern)
      for (int i = 0; i < 8; ++i) rows[pattern][i] = (pattern >> i & 1) != 0 ? 1.0F : 0.0F;
  }
};
constexpr PatternTable kPatterns;

void write_set(KindSet set, float* out) {
  for (std::size_t block = 0; block < 4; ++block) {
    Eight eight;
    std::memcpy(&eight, kPatterns.rows[set >> (8 * block) & 0xFF], sizeof eight);
    std::memcpy(out + 8 * block, &eight, sizeof eight);
  }
  std::memcpy(out + 32, kPatterns.rows[set >> 32 & 3], 2 * sizeof(float));
}

void write_fill(float value, float* out) {
  const Eight eight = {value, value, value, value, value, value, value, value};
  for (std::size_t block = 0; block < 4; ++block) std::memcpy(out + 8 * block, &eight, sizeof eight);
  out[32] = out[33] = value;
}

void write_halves(KindSet full, KindSet half, float* out) {
  write_set(full, out);
  for_each_kind(half, [&](Kind kind) { out[kind] = 0.5F; });
}

// exp(-0.2 * dt) of the latest discard of each kind, dt in the player's own discards, at most 30.
const std::array<float, 31>& decay_table() {
  static const auto table = [] {
    std::array<float, 31> values{};
    for (std::size_t dt = 0; dt < values.size(); ++dt)
      values[dt] = static_cast<float>(std::exp(-0.2 * static_cast<double>(dt)));
    return values;
  }();
  return table;
}

// Rows of the players in `stale` (bit per absolute seat), in one walk along the common river. Discards of the
// others go to a row that nobody reads: cheaper than asking at each.
void write_decays(const PublicState& pub, int seat, unsigned stale, float* rows) {
  const auto& table = decay_table();
  Row unread;
  std::array<float*, 4> row{};
  std::array<unsigned, 4> left{};
  for (unsigned p = 0; p < 4; ++p) {
    left[p] = pub.seats[p].discards;
    row[p] = unread;
    if ((stale >> p & 1) == 0) continue;
    row[p] = rows + (13 + 3 * ((p + 4 - static_cast<unsigned>(seat)) % 4)) * kKinds;
    std::memset(row[p], 0, sizeof(Row));
  }
  for (std::size_t i = 0; i < pub.river_size; ++i) {
    const RiverTile tile = pub.river[i];
    const auto player = static_cast<std::size_t>(tile.player());
    const unsigned dt = --left[player];
    row[player][kind_of(tile.tile())] = table[dt < 30 ? dt : 30];  // later copies overwrite: the maximum
  }
}

struct Rows {
  std::array<std::uint64_t, kRows> key{};
  std::array<std::uint64_t, 3> halves{};  // second sets of the suji rows
  void fill(std::size_t row, float value) { key[row] = std::bit_cast<std::uint32_t>(value); }
};

void meld_rows(const PublicState& pub, int seat, Rows& rows) {
  for (std::size_t p = 0; p < 4; ++p) {
    const Seat& player = pub.seats[(static_cast<std::size_t>(seat) + p) % 4];
    for (const Meld& meld : player.meld_span()) {
      const Kind kind = meld.kind();
      if (meld.type == MeldType::Chi)
        rows.key[23 + 3 * p] |= KindSet{7} << kind;
      else
        rows.key[(meld.is_kan() ? 25 : 24) + 3 * p] |= bit(kind);
      if (p != 0) continue;
      // Thermometer of the own melds' tiles; a kind may be in a pon and in runs.
      const auto add = [&](Kind one, int copies) {
        for (std::size_t row = 4; row < 8 && copies > 0; ++row) {
          if ((rows.key[row] >> one & 1) != 0) continue;
          rows.key[row] |= bit(one);
          --copies;
        }
      };
      if (meld.type == MeldType::Chi)
        for (Kind i = 0; i < 3; ++i) add(static_cast<Kind>(kind + i), 1);
      else
        add(kind, meld.size());
    }
  }
}

void meta_rows(const Observation& o, const EncoderOptions& options, Rows& rows) {
  const PublicState& pub = o.pub;
  for (const Tile tile : pub.indicator_span()) {
    std::size_t row = 35;
    while ((rows.key[row] >> kind_of(tile) & 1) != 0) ++row;
    rows.key[row] |= bit(kind_of(tile));
  }
  for (std::size_t suit = 0; suit < 3; ++suit) rows.fill(40 + suit, o.own.hand.red[suit] > 0 ? 1.0F : 0.0F);
  const auto mine = static_cast<float>(pub.seats[o.seat].score);
  for (std::size_t p = 0; p < 4; ++p) {
    const Seat& seat = pub.seats[(o.seat + p) % 4];
    const auto score = static_cast<float>(seat.score);
    rows.fill(43 + p, seat.riichi != RiichiState::None ? 1.0F : 0.0F);
    rows.fill(47 + p, score / 100000.0F);
    rows.fill(51 + p, (options.old_gap_sign ? score - mine : mine - score) / 30000.0F);
  }
  rows.fill(59, static_cast<float>(pub.round) / 8.0F);
  rows.fill(60, static_cast<float>(pub.honba) / 10.0F);
  rows.fill(61, static_cast<float>(pub.sticks) / 10.0F);
}

// Which discards keep or lower the shanten that the hand had before its draw.
void shanten_rows(const Observation& o, Rows& rows) {
  const Hand& hand = o.own.hand;
  const int melds = o.pub.seats[o.seat].meld_count;
  const bool to_discard = hand.size % 3 == 2;
  int now = 0;
  if (to_discard) {
    const auto after = shanten_after_discard(hand, melds);
    int best = kNoShanten;
    for_each_kind(hand.kinds(), [&](Kind kind) { best = std::min<int>(best, after[kind]); });
    const int before = o.own.drawn_tile() == kNoTile ? best : after[kind_of(o.own.drawn_tile())];
    for_each_kind(hand.kinds(), [&](Kind kind) {
      rows.key[9] |= KindSet{after[kind] <= before} << kind;
      rows.key[10] |= KindSet{after[kind] < before} << kind;
    });
    now = best;
  } else {
    now = shanten(hand, melds);
  }
  const int clamped = now < 0 ? 0 : now > 3 ? 3 : now;
  for (int i = 0; i < 4; ++i) rows.fill(static_cast<std::size_t>(55 + i), i == clamped ? 1.0F : 0.0F);
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

// Eight counts at a time; none is above four, so no byte carries into the next.
void add_counts(std::array<std::uint8_t, kKinds>& to, const std::array<std::uint8_t, kKinds>& from) {
  std::array<std::uint64_t, 5> a{}, b{};
  std::memcpy(a.data(), to.data(), kKinds);
  std::memcpy(b.data(), from.data(), kKinds);
  for (std::size_t i = 0; i < 5; ++i) a[i] += b[i];
  std::memcpy(to.data(), a.data(), kKinds);
}

void visible_rows(const Observation& o, const EncoderOptions& options, Rows& rows) {
  std::array<std::uint8_t, kKinds> visible = o.pub.seen;
  if (options.old_visible) {
    visible.fill(0);
    for (std::size_t i = 0; i < o.pub.river_size; ++i)
      if (o.pub.river[i].player() != o.seat) ++visible[kind_of(o.pub.river[i].tile())];
    for (const Seat& seat : o.pub.seats)
      for (const Meld& meld : seat.meld_span())
        for (std::size_t i = 0; i < 3 && meld.type != MeldType::Ankan; ++i)
          if (meld.consumed[i] != kNoTile && !(meld.type == MeldType::Kakan && i == 2))
            ++visible[kind_of(meld.consumed[i])];
  } else {
    add_counts(visible, o.own.hand.count);
  }
  rows.key[80] = kinds_where(visible, [](std::uint64_t c) { return c >> 2 & detail::kLowBits; });
  rows.key[81] = kinds_where(visible, [](std::uint64_t c) { return c & c >> 1 & detail::kLowBits; });
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
    rows.key[71 + i] = (above & kLowNumbers) | (below & kHighNumbers) | (above & below & kMiddleNumbers);
    rows.halves[i] = half;
    rows.key[74 + i] = half;
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

// Everything but the shanten rows (9, 10, 55-58) and the decays, which are costly and have their own tests.
void describe(const Observation& o, const EncoderOptions& options, Rows& rows) {
  const Hand& hand = o.own.hand;
  rows.key[0] = hand.kinds();
  rows.key[1] = hand.pairs();
  rows.key[2] = hand.triplets();
  rows.key[3] = hand.quads();
  if (o.own.drawn_tile() != kNoTile) rows.key[8] = bit(kind_of(o.own.drawn_tile()));
  for (std::size_t p = 0; p < 4; ++p) {
    const Seat& seat = o.pub.seats[(o.seat + p) % 4];
    rows.key[11 + 3 * p] = seat.river_kinds;
    rows.key[12 + 3 * p] = seat.tedashi_kinds;
  }
  meld_rows(o.pub, o.seat, rows);
  meta_rows(o, options, rows);
  safety_rows(o, options, rows);
  if (options.context) context_rows(o, rows);
}

void write_row(const Rows& rows, std::size_t row, float* out) {
  if (kRowTypes[row] == RowType::Set) return write_set(rows.key[row], out);
  if (kRowTypes[row] == RowType::Fill)
    return write_fill(std::bit_cast<float>(static_cast<std::uint32_t>(rows.key[row])), out);
  write_halves(rows.key[row], rows.halves[row - 71], out);
}

}  // namespace

void encode(const Observation& o, std::span<float> out, const EncoderOptions& options) {
  const auto count = static_cast<std::size_t>(options.channels());
  INGOT_CHECK(out.size() == count * kKinds, ShapeMismatch("mahjong::encode", {options.channels(), kKinds},
                                                          {static_cast<std::int64_t>(out.size())}));
  Rows rows;
  describe(o, options, rows);
  shanten_rows(o, rows);
  // More than half of the rows are zero, and clearing all at once is cheaper than row by row.
  std::memset(out.data(), 0, out.size_bytes());
  for (std::size_t row = 0; row < count; ++row) {
    const bool empty = rows.key[row] == 0 && (row < 71 || row > 73 || rows.halves[row - 71] == 0);
    if (!empty && kRowTypes[row] != RowType::Decay) write_row(rows, row, out.data() + row * kKinds);
  }
  write_decays(o.pub, o.seat, 15, out.data());
}

std::span<const float> IncrementalEncoder::encode(const Observation& o) {
  const auto count = static_cast<std::size_t>(options_.channels());
  Rows rows;
  describe(o, options_, rows);
  const KindSet hand_context = KindSet{o.own.drawn} << 8 | o.pub.seats[o.seat].meld_count;
  if (started_ && hand_ == o.own.hand && hand_context_ == hand_context) {
    for (const std::size_t row : {9, 10, 55, 56, 57, 58}) rows.key[row] = keys_[row];
  } else {
    shanten_rows(o, rows);
    hand_ = o.own.hand;
    hand_context_ = hand_context;
  }
  // A decay row changes with its player's river: from the first discard that is not as remembered.
  unsigned stale = started_ && seat_ == o.seat ? 0U : 15U;
  const std::size_t known = std::min<std::size_t>(river_size_, o.pub.river_size);
  std::size_t same = 0;
  if (std::memcmp(river_.data(), o.pub.river.data(), known * sizeof(RiverTile)) == 0)
    same = known;
  else
    while (same < known && river_[same].bits == o.pub.river[same].bits) ++same;
  for (std::size_t i = same; i < river_size_; ++i) stale |= 1U << river_[i].player();
  for (std::size_t i = same; i < o.pub.river_size; ++i) stale |= 1U << o.pub.river[i].player();
  std::memcpy(river_.data() + same, o.pub.river.data() + same, (o.pub.river_size - same) * sizeof(RiverTile));
  river_size_ = o.pub.river_size;
  rows_written_ = 0;
  // First which rows changed, without branching on each, then those alone. A decay row has no key, so never
  // differs.
  std::array<std::uint64_t, 2> changed{};
  for (std::size_t row = 0; row < 64; ++row) changed[0] |= std::uint64_t{keys_[row] != rows.key[row]} << row;
  for (std::size_t row = 64; row < kRows; ++row)
    changed[1] |= std::uint64_t{keys_[row] != rows.key[row]} << (row - 64);
  for (std::size_t i = 0; i < 3; ++i)
    changed[1] |= std::uint64_t{halves_[i] != rows.halves[i]} << (71 + i - 64);
  for (std::size_t part = 0; part < 2; ++part)
    for (std::uint64_t rest = changed[part]; rest != 0; rest &= rest - 1) {
      const auto row = 64 * part + static_cast<std::size_t>(__builtin_ctzll(rest));
      write_row(rows, row, rows_.data() + row * kKinds);
      ++rows_written_;
    }
  if (stale != 0) write_decays(o.pub, o.seat, stale, rows_.data());
  rows_written_ += __builtin_popcount(stale);
  keys_ = rows.key;
  halves_ = rows.halves;
  seat_ = o.seat;
  started_ = true;
  return {rows_.data(), count * kKinds};
}

}  // namespace ingot::mahjong

#include "ingot/mahjong/shanten.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include <fmt/core.h>

#include "ingot/mahjong/errors.h"

// What a suit can contribute is ten numbers: the tiles it lacks to hold m = 0..4 groups, without and with a
// pair. The 405,350 suits of at most 14 tiles have only 126 such vectors (the 43,130 sets of honours 55), and
// adding suits up (min-plus convolution) keeps the number below 200. So a suit's counts, in base 5, index a
// table of small ids, and the sum over suits is three more look-ups in tables that stay in the first-level
// cache.
namespace ingot::mahjong {
namespace {

constexpr int kSuitRows = 1953125;  // 5^9
constexpr int kHonorRows = 78125;   // 5^7
constexpr std::size_t kMaxIds = 192;
constexpr std::uint8_t kFar = 14;

// [m] without a pair, [5 + m] with one; the last six bytes pad to one vector register.
struct alignas(16) Lack {
  std::array<std::uint8_t, 16> tiles;
  bool operator<(const Lack& other) const { return tiles < other.tiles; }
};

Lack no_way() {
  Lack lack;
  lack.tiles.fill(kFar);
  return lack;
}

// Besides the id, a row carries the sums that the two special forms need; rows of four suits can be added.
constexpr std::uint32_t kKindsShift = 8, kPairsShift = 12, kOrphansShift = 16, kOrphanPairShift = 20;

struct Ids {
  std::map<Lack, std::uint8_t> of;
  std::vector<Lack> all;
  std::uint8_t id(const Lack& lack) {
    const auto [it, inserted] = of.try_emplace(lack, static_cast<std::uint8_t>(all.size()));
    if (inserted) {
      INGOT_ASSERT(all.size() < kMaxIds);
      all.push_back(lack);
    }
    return it->second;
  }
};

Lack merge(const Lack& a, const Lack& b) {
  Lack sum = no_way();
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; i + j < 5; ++j) {
      const auto put = [&](std::size_t at, int lack) {
        sum.tiles[at] = static_cast<std::uint8_t>(std::min<int>(sum.tiles[at], lack));
      };
      put(i + j, a.tiles[i] + b.tiles[j]);
      put(i + j + 5, a.tiles[i + 5] + b.tiles[j]);
      put(i + j + 5, a.tiles[i] + b.tiles[j + 5]);
    }
  return sum;
}

class Tables {
 public:
  Tables() : suit_(kSuitRows), honor_(kHonorRows) {
    Ids suits, honors, two, three;
    fill(suit_, 9, suits);
    fill(honor_, 7, honors);
    for (std::size_t a = 0; a < suits.all.size(); ++a)
      for (std::size_t b = 0; b < suits.all.size(); ++b)
        two_[a][b] = two.id(merge(suits.all[a], suits.all[b]));
    for (std::size_t a = 0; a < two.all.size(); ++a)
      for (std::size_t b = 0; b < suits.all.size(); ++b)
        three_[a][b] = three.id(merge(two.all[a], suits.all[b]));
    for (std::size_t a = 0; a < three.all.size(); ++a)
      for (std::size_t b = 0; b < honors.all.size(); ++b) {
        const Lack all = merge(three.all[a], honors.all[b]);
        for (std::size_t melds = 0; melds <= 4; ++melds)
          standard_[melds][a][b] = static_cast<std::int8_t>(all.tiles[5 + 4 - melds] - 1);
      }
  }

  std::uint32_t suit(std::uint32_t row) const { return suit_[row]; }
  std::uint32_t honor(std::uint32_t row) const { return honor_[row]; }
  int standard(std::uint32_t m, std::uint32_t p, std::uint32_t s, std::uint32_t z, int melds) const {
    return standard_[melds][three_[two_[m & 0xFF][p & 0xFF]][s & 0xFF]][z & 0xFF];
  }

 private:
  // Distances by relaxation over the lattice of counts: a row that contains a target lacks nothing, any other
  // lacks one tile more than its best neighbour with one tile more.
  static void fill(std::vector<std::uint32_t>& table, int numbers, Ids& ids) {
    const int rows = static_cast<int>(table.size());
    std::vector<Lack> lack(table.size(), no_way());
    mark_targets(lack, numbers, 0, 0, 0);
    std::array<int, 9> weight{1};
    for (std::size_t i = 0; i < 8; ++i) weight[i + 1] = weight[i] * 5;
    const auto relax = [&](int row, int from, std::uint8_t cost) {
      auto to = lack[static_cast<std::size_t>(row)].tiles;  // copies: without aliasing these are vector loops
      const auto source = lack[static_cast<std::size_t>(from)].tiles;
      for (std::size_t k = 0; k < 16; ++k) {
        const auto there = static_cast<std::uint8_t>(source[k] + cost);
        to[k] = there < to[k] ? there : to[k];
      }
      lack[static_cast<std::size_t>(row)].tiles = to;
    };
    const auto keep_zero = [&](int row, int from) {
      auto to = lack[static_cast<std::size_t>(row)].tiles;
      const auto source = lack[static_cast<std::size_t>(from)].tiles;
      for (std::size_t k = 0; k < 16; ++k) to[k] = source[k] == 0 ? std::uint8_t{0} : to[k];
      lack[static_cast<std::size_t>(row)].tiles = to;
    };
    std::array<int, 9> digit{};  // of `row`, counted along: dividing would take most of the time
    for (int row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(numbers); ++i)
        if (digit[i] > 0) keep_zero(row, row - weight[i]);
      for (std::size_t i = 0; i < 9 && ++digit[i] == 5; ++i) digit[i] = 0;
    }
    digit.fill(4);
    for (int row = rows - 1; row >= 0; --row) {
      int tiles = 0, kinds = 0, pairs = 0, orphans = 0, orphan_pair = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(numbers); ++i) {
        const int n = digit[i];
        if (n < 4) relax(row, row + weight[i], 1);
        const bool yaochuu = numbers == 7 || i == 0 || i == 8;
        tiles += n;
        kinds += n > 0;
        pairs += n > 1;
        orphans += yaochuu && n > 0;
        orphan_pair |= yaochuu && n > 1;
      }
      for (std::size_t i = 0; i < 9 && --digit[i] < 0; ++i) digit[i] = 4;
      if (tiles > 14) continue;
      table[static_cast<std::size_t>(row)] = ids.id(lack[static_cast<std::size_t>(row)]) |
                                             static_cast<std::uint32_t>(kinds) << kKindsShift |
                                             static_cast<std::uint32_t>(pairs) << kPairsShift |
                                             static_cast<std::uint32_t>(orphans) << kOrphansShift |
                                             static_cast<std::uint32_t>(orphan_pair) << kOrphanPairShift;
    }
  }

  static void mark_targets(std::vector<Lack>& lack, int numbers, int first, int row, std::size_t groups) {
    int weight = 1;
    const auto digit = [row](int w) { return row / w % 5; };
    lack[static_cast<std::size_t>(row)].tiles[groups] = 0;
    for (int i = 0; i < numbers; ++i, weight *= 5)
      if (digit(weight) <= 2) lack[static_cast<std::size_t>(row + 2 * weight)].tiles[groups + 5] = 0;
    if (groups == 4) return;
    weight = 1;
    for (int i = 0; i < numbers; ++i, weight *= 5) {  // triplets are 2i, runs 2i + 1: each multiset once
      if (2 * i >= first && digit(weight) <= 1)
        mark_targets(lack, numbers, 2 * i, row + 3 * weight, groups + 1);
      if (2 * i + 1 >= first && numbers == 9 && i < 7 && digit(weight) < 4 && digit(5 * weight) < 4 &&
          digit(25 * weight) < 4)
        mark_targets(lack, numbers, 2 * i + 1, row + 31 * weight, groups + 1);
    }
  }

  std::vector<std::uint32_t> suit_, honor_;
  std::array<std::array<std::uint8_t, 128>, 128> two_{};
  std::array<std::array<std::uint8_t, 128>, kMaxIds> three_{};
  std::array<std::array<std::array<std::int8_t, 64>, kMaxIds>, 5> standard_{};
};

const Tables& tables() {
  static const auto* const built = new Tables();  // never freed: games on other threads may outlive main
  return *built;
}

struct SuitRows {
  std::uint32_t m, p, s, z;
};
[[gnu::always_inline]] inline SuitRows rows_of(const Tables& t, const Hand& hand) {
  return {t.suit(hand.suit[0]), t.suit(hand.suit[1]), t.suit(hand.suit[2]), t.honor(hand.suit[3])};
}

int seven_pairs_of(std::uint32_t sum) {
  const int kinds = static_cast<int>(sum >> kKindsShift & 0xF),
            pairs = static_cast<int>(sum >> kPairsShift & 0xF);
  return 6 - pairs + (kinds < 7 ? 7 - kinds : 0);
}
int thirteen_orphans_of(std::uint32_t sum) {
  return 13 - static_cast<int>(sum >> kOrphansShift & 0xF) - (sum >> kOrphanPairShift != 0);
}
// The ids of four rows (each < 192) would carry into the sums, so they are cleared first.
std::uint32_t sum_of(const SuitRows& r) {
  constexpr std::uint32_t kSums = ~0xFFU;
  return (r.m & kSums) + (r.p & kSums) + (r.s & kSums) + (r.z & kSums);
}

[[gnu::always_inline]] inline int best_of(const Tables& t, const SuitRows& r, int melds) {
  const int standard = t.standard(r.m, r.p, r.s, r.z, melds);
  if (melds > 0) return standard;
  const std::uint32_t sum = sum_of(r);
  return std::min({standard, seven_pairs_of(sum), thirteen_orphans_of(sum)});
}

// Shanten after one suit's row changed from hand.suit[suit] to `row`.
int with_row(const Tables& t, const SuitRows& base, int suit, std::uint32_t row, int melds) {
  SuitRows r = base;
  if (suit == 0) r.m = t.suit(row);
  if (suit == 1) r.p = t.suit(row);
  if (suit == 2) r.s = t.suit(row);
  if (suit == 3) r.z = t.honor(row);
  return best_of(t, r, melds);
}

// A suit with each tile added that fits, looked up once: the rows lie far apart in their table, and the hands
// that one decision weighs up share few suits.
class DrawnRows {
 public:
  struct Row {
    std::uint32_t key = ~0U;
    std::array<std::uint32_t, 9> with{};
  };
  const Row& of(const Tables& t, unsigned suit, std::uint32_t row) {
    const bool honors = suit == 3;
    const std::uint32_t key = row << 1 | static_cast<std::uint32_t>(honors);
    Row& known = rows_[key * 2654435761U >> (32 - kBits)];  // Knuth's multiplicative hash
    if (known.key == key) return known;
    known.key = key;
    std::uint32_t weight = 1;
    for (std::size_t i = 0; i < (honors ? 7U : 9U); ++i, weight *= 5)
      if (row / weight % 5 < 4) known.with[i] = honors ? t.honor(row + weight) : t.suit(row + weight);
    return known;
  }

 private:
  static constexpr int kBits = 11;
  std::array<Row, std::size_t{1} << kBits> rows_;
};

// The kinds that lower the shanten of a hand, wherever they lie.
KindSet nearer_kinds(const Hand& hand, int melds, DrawnRows& rows) {
  const Tables& t = tables();
  const SuitRows r = rows_of(t, hand);
  const int now = best_of(t, r, melds);
  const KindSet drawable = kAllKinds & ~hand.count.quads();
  KindSet nearer = 0;
  const auto of_suit = [&](unsigned suit, auto&& best_with) {  // best_with(row): with that suit's row
    const DrawnRows::Row& drawn = rows.of(t, suit, hand.suit[suit]);
    for_each_kind(drawable & (KindSet{0x1FF} << (9 * suit)), [&](Kind kind) {
      nearer |= KindSet{best_with(drawn.with[kind - 9 * suit]) < now} << kind;
    });
  };
  of_suit(0, [&](std::uint32_t row) { return best_of(t, {row, r.p, r.s, r.z}, melds); });
  of_suit(1, [&](std::uint32_t row) { return best_of(t, {r.m, row, r.s, r.z}, melds); });
  of_suit(2, [&](std::uint32_t row) { return best_of(t, {r.m, r.p, row, r.z}, melds); });
  of_suit(3, [&](std::uint32_t row) { return best_of(t, {r.m, r.p, r.s, row}, melds); });
  return nearer;
}

// What a decision weighs up: two discards with a draw between them lead to the same hand in either order, and
// a turn later to most of the same hands again.
class KnownHands {
 public:
  KindSet nearer(const Hand& hand, int melds) {
    const std::array<std::uint32_t, 4> suit = {hand.suit[0], hand.suit[1], hand.suit[2],
                                               hand.suit[3] << 3 | static_cast<std::uint32_t>(melds)};
    const std::uint64_t mixed = (suit[0] | std::uint64_t{suit[1]} << 32) * 0x9E3779B97F4A7C15U ^
                                (suit[2] | std::uint64_t{suit[3]} << 32) * 0xC2B2AE3D27D4EB4FU;
    Entry& known = hands_[mixed >> (64 - kBits)];
    if (known.suit != suit) known = {suit, nearer_kinds(hand, melds, rows_)};
    return known.nearer;
  }

 private:
  static constexpr int kBits = 13;
  struct Entry {
    std::array<std::uint32_t, 4> suit{~0U, ~0U, ~0U, ~0U};
    KindSet nearer = 0;
  };
  std::array<Entry, std::size_t{1} << kBits> hands_;
  DrawnRows rows_;
};

// Only threads that ask have one.
KnownHands& known_hands() {
  thread_local const auto hands = std::make_unique<KnownHands>();
  return *hands;
}

}  // namespace

Shanten shanten_forms(const Hand& hand, int melds) {
  INGOT_CHECK(melds >= 0 && melds <= 4 && (hand.size == 13 - 3 * melds || hand.size == 14 - 3 * melds),
              InvalidHand(fmt::format("{} concealed tiles beside {} melds: a hand has {} or {}", hand.size,
                                      melds, 13 - 3 * melds, 14 - 3 * melds)));
  const Tables& t = tables();
  const SuitRows r = rows_of(t, hand);
  if (melds > 0) return {t.standard(r.m, r.p, r.s, r.z, melds), kNoShanten, kNoShanten};
  const std::uint32_t sum = sum_of(r);
  return {t.standard(r.m, r.p, r.s, r.z, melds), seven_pairs_of(sum), thirteen_orphans_of(sum)};
}

int shanten(const Hand& hand, int melds) {
  const Tables& t = tables();
  return best_of(t, rows_of(t, hand), melds);
}

bool is_complete(const Hand& hand, int melds) { return shanten(hand, melds) == -1; }

KindSet waits(const Hand& hand, int melds, KindSet unavailable) {
  const Tables& t = tables();
  const SuitRows r = rows_of(t, hand);
  if (best_of(t, r, melds) != 0) return 0;
  KindSet found = 0;
  for_each_kind(kAllKinds & ~hand.count.quads() & ~unavailable, [&](Kind kind) {
    const int suit = suit_of(kind);
    if (with_row(t, r, suit, hand.suit[static_cast<std::size_t>(suit)] + detail::kWeights[kind], melds) == -1)
      found |= bit(kind);
  });
  return found;
}

Acceptance acceptance(const Hand& hand, int melds, const KindCounts& seen) {
  const KindCounts gone = hand.count + seen;
  Acceptance accepted{.kinds = known_hands().nearer(hand, melds) & ~gone.quads()};
  for_each_kind(accepted.kinds, [&](Kind kind) { accepted.tiles += 4 - gone[kind]; });
  return accepted;
}

// A discard takes at most one useful tile, so the shanten afterwards is that of the whole hand or one more.
BestDiscards best_discards(const Hand& hand, int melds) {
  const Tables& t = tables();
  const SuitRows r = rows_of(t, hand);
  BestDiscards best;
  best.shanten = std::max(best_of(t, r, melds), 0);
  const KindSet kinds = hand.count.kinds();
  const auto of_suit = [&](unsigned suit,
                           auto&& best_with) {  // best_with(row): of the hand with that suit's row
    KindSet found = 0;
    for_each_kind(kinds & (KindSet{0x1FF} << (9 * suit)), [&](Kind kind) {
      found |= KindSet{best_with(hand.suit[suit] - detail::kWeights[kind]) == best.shanten} << kind;
    });
    best.kinds |= found;
  };
  of_suit(0, [&](std::uint32_t row) { return best_of(t, {t.suit(row), r.p, r.s, r.z}, melds); });
  of_suit(1, [&](std::uint32_t row) { return best_of(t, {r.m, t.suit(row), r.s, r.z}, melds); });
  of_suit(2, [&](std::uint32_t row) { return best_of(t, {r.m, r.p, t.suit(row), r.z}, melds); });
  of_suit(3, [&](std::uint32_t row) { return best_of(t, {r.m, r.p, r.s, t.honor(row)}, melds); });
  return best;
}

void prepare_shanten_tables() { tables(); }

}  // namespace ingot::mahjong

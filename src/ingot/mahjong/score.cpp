#include "ingot/mahjong/score.h"

#include <algorithm>
#include <tuple>

#include <fmt/core.h>

#include "ingot/mahjong/errors.h"
#include "ingot/mahjong/readings.h"

namespace ingot::mahjong {
namespace {

constexpr std::uint64_t flag(Yaku yaku) { return std::uint64_t{1} << static_cast<unsigned>(yaku); }
constexpr Yaku offset(Yaku first, int by) { return static_cast<Yaku>(static_cast<int>(first) + by); }

struct YakuRow {
  std::string_view name;
  std::int8_t closed, open;
};
constexpr std::array<YakuRow, static_cast<std::size_t>(Yaku::kCount)> kYaku = {{
    {"menzen tsumo", 1, 0},
    {"riichi", 1, 0},
    {"ippatsu", 1, 0},
    {"chankan", 1, 1},
    {"rinshan kaihou", 1, 1},
    {"haitei", 1, 1},
    {"houtei", 1, 1},
    {"pinfu", 1, 0},
    {"tanyao", 1, 1},
    {"iipeikou", 1, 0},
    {"seat wind east", 1, 1},
    {"seat wind south", 1, 1},
    {"seat wind west", 1, 1},
    {"seat wind north", 1, 1},
    {"round wind east", 1, 1},
    {"round wind south", 1, 1},
    {"round wind west", 1, 1},
    {"round wind north", 1, 1},
    {"haku", 1, 1},
    {"hatsu", 1, 1},
    {"chun", 1, 1},
    {"double riichi", 2, 0},
    {"chiitoitsu", 2, 0},
    {"chanta", 2, 1},
    {"ittsu", 2, 1},
    {"sanshoku doujun", 2, 1},
    {"sanshoku doukou", 2, 2},
    {"sankantsu", 2, 2},
    {"toitoi", 2, 2},
    {"sanankou", 2, 2},
    {"shousangen", 2, 2},
    {"honroutou", 2, 2},
    {"ryanpeikou", 3, 0},
    {"junchan", 3, 2},
    {"honitsu", 3, 2},
    {"chinitsu", 6, 5},
    {"renhou", 5, 0},
    {"tenhou", 13, 0},
    {"chiihou", 13, 0},
    {"daisangen", 13, 13},
    {"suuankou", 13, 0},
    {"suuankou tanki", 13, 0},
    {"tsuuiisou", 13, 13},
    {"ryuuiisou", 13, 13},
    {"chinroutou", 13, 13},
    {"chuuren poutou", 13, 0},
    {"junsei chuuren poutou", 13, 0},
    {"kokushi musou", 13, 0},
    {"kokushi musou 13 men", 13, 0},
    {"daisuushii", 13, 13},
    {"shousuushii", 13, 13},
    {"suukantsu", 13, 13},
    {"dora", 1, 1},
    {"ura dora", 1, 1},
    {"red dora", 1, 1},
}};
constexpr std::uint64_t kYakumanYaku = flag(Yaku::Dora) - flag(Yaku::Tenhou);

// What holds under every reading.
struct Facts {
  bool closed = true;
  KindSet kinds = 0;  // of hand and melds
  std::uint64_t situation = 0, situation_yakuman = 0;
  int dora = 0, ura = 0, red = 0;
};

int count_dora(const WinQuery& q, std::span<const Tile> indicators) {
  const KindCounts tiles = q.hand.count + count_tiles(q.melds);
  int dora = 0;
  for (const Tile indicator : indicators) dora += tiles[dora_of(kind_of(indicator))];
  return dora;
}

Facts gather(const WinQuery& q, const Rules& rules) {
  Facts facts;
  facts.kinds = q.hand.count.kinds();
  facts.red = q.hand.red[0] + q.hand.red[1] + q.hand.red[2];
  for (const Meld& meld : q.melds) {
    facts.closed &= !meld.is_open();
    facts.kinds |= bit(kind_of(meld.called));
    facts.red += is_red(meld.called);
    for (const Tile tile : meld.consumed) {
      if (tile == kNoTile) continue;
      facts.kinds |= bit(kind_of(tile));
      facts.red += is_red(tile);
    }
  }
  const auto set = [&](bool holds, Yaku yaku) { facts.situation |= holds ? flag(yaku) : 0; };
  set(q.tsumo && facts.closed, Yaku::MenzenTsumo);
  set(q.riichi && !q.double_riichi, Yaku::Riichi);
  set(q.double_riichi, Yaku::DoubleRiichi);
  set(q.ippatsu && rules.ippatsu && (q.riichi || q.double_riichi), Yaku::Ippatsu);
  set(q.chankan, Yaku::Chankan);
  set(q.rinshan, Yaku::Rinshan);
  set(q.last_tile && q.tsumo && !q.rinshan, Yaku::Haitei);
  set(q.last_tile && !q.tsumo, Yaku::Houtei);
  if (q.first_turn && q.tsumo)
    facts.situation_yakuman = flag(q.seat_wind == 0 ? Yaku::Tenhou : Yaku::Chiihou);
  if (q.first_turn && !q.tsumo && rules.renhou != Renhou::None) facts.situation_yakuman = flag(Yaku::Renhou);
  facts.dora = count_dora(q, q.indicators);
  if ((q.riichi || q.double_riichi) && rules.ura_dora) facts.ura = count_dora(q, q.ura_indicators);
  return facts;
}

std::uint64_t flush_yaku(KindSet kinds) {
  const bool m = (kinds & 0x1FF) != 0, p = (kinds & 0x1FF << 9) != 0, s = (kinds & KindSet{0x1FF} << 18) != 0;
  if (m + p + s != 1) return 0;
  return flag((kinds & kHonors) != 0 ? Yaku::Honitsu : Yaku::Chinitsu);
}

// One way to read the hand: groups, pair, and which of them the winning tile completed.
struct Placed {
  const Reading& reading;
  int win_group;  // index into the concealed groups, or -1 for the pair
};

class Evaluator {
 public:
  Evaluator(const WinQuery& q, const Rules& rules) : q_(q), rules_(rules), facts_(gather(q, rules)) {}

  WinScore best() {
    if (q_.melds.empty()) {
      try_orphans();
      try_pairs();
    }
    const ReadingList readings = read_standard(q_.hand, 4 - static_cast<int>(q_.melds.size()));
    const Kind win = kind_of(q_.win_tile);
    for (int r = 0; r < readings.size; ++r) {
      const Reading& reading = readings.items[static_cast<std::size_t>(r)];
      if (reading.pair == win) try_standard({reading, -1});
      for (int g = 0; g < reading.size; ++g)
        if (reading.groups[static_cast<std::size_t>(g)].contains(win)) try_standard({reading, g});
    }
    return best_;
  }

 private:
  void offer(const WinScore& score) {
    const auto key = [](const WinScore& s) { return std::tuple(s.base, s.han, s.fu); };
    if (key(score) > key(best_)) best_ = score;
  }

  void offer_yakuman(std::uint64_t yaku) {
    WinScore score;
    score.yaku = yaku | (facts_.situation_yakuman & kYakumanYaku);
    if (rules_.renhou == Renhou::Yakuman) score.yaku |= facts_.situation_yakuman;
    int times = 0;
    for (std::uint64_t rest = score.yaku; rest != 0; rest &= rest - 1) {
      const auto one = static_cast<Yaku>(__builtin_ctzll(rest));
      const bool twice = (one == Yaku::SuuankouTanki && rules_.double_suuankou_tanki) ||
                         (one == Yaku::JunseiChuuren && rules_.double_junsei_chuuren) ||
                         (one == Yaku::Kokushi13 && rules_.double_kokushi_13) ||
                         (one == Yaku::Daisuushii && rules_.double_daisuushii);
      times = rules_.yakuman_add_up ? times + (twice ? 2 : 1) : std::max(times, twice ? 2 : 1);
    }
    score.yakuman = static_cast<std::uint8_t>(times);
    score.han = static_cast<std::uint8_t>(13 * times);
    score.base = 8000 * times;
    offer(score);
  }

  bool situation_is_yakuman() const {
    return (facts_.situation_yakuman & kYakumanYaku) != 0 ||
           (facts_.situation_yakuman != 0 && rules_.renhou == Renhou::Yakuman);
  }

  void offer_ordinary(std::uint64_t yaku, int fu) {
    if (situation_is_yakuman()) return offer_yakuman(0);
    WinScore score;
    score.yaku = yaku | facts_.situation;
    int han = 0;
    for (std::uint64_t rest = score.yaku; rest != 0; rest &= rest - 1)
      han += yaku_han(static_cast<Yaku>(__builtin_ctzll(rest)), !facts_.closed);
    if (facts_.situation_yakuman != 0 &&
        han + facts_.dora + facts_.red < 5) {  // renhou as mangan replaces the rest
      score.yaku = flag(Yaku::Renhou);
      score.han = 5;
      score.fu = static_cast<std::uint8_t>(fu);
      score.base = base_points(5, fu, rules_);
      return offer(score);
    }
    if (han == 0) return;
    score.dora = static_cast<std::uint8_t>(facts_.dora);
    score.ura = static_cast<std::uint8_t>(facts_.ura);
    score.red = static_cast<std::uint8_t>(facts_.red);
    if (score.dora != 0) score.yaku |= flag(Yaku::Dora);
    if (score.ura != 0) score.yaku |= flag(Yaku::UraDora);
    if (score.red != 0) score.yaku |= flag(Yaku::RedDora);
    han += facts_.dora + facts_.ura + facts_.red;
    score.han = static_cast<std::uint8_t>(han);
    score.fu = static_cast<std::uint8_t>(fu);
    score.base = base_points(han, fu, rules_);
    score.yakuman = han >= 13 && rules_.kazoe_yakuman;
    offer(score);
  }

  void try_orphans() {
    if ((facts_.kinds & ~kYaochuu) != 0 || facts_.kinds != kYaochuu || q_.hand.size != 14) return;
    const bool thirteen = q_.hand.count[kind_of(q_.win_tile)] == 2;
    offer_yakuman(flag(thirteen ? Yaku::Kokushi13 : Yaku::Kokushi));
  }

  void try_pairs() {
    const KindCounts& count = q_.hand.count;
    if (__builtin_popcountll(count.pairs() & ~count.triplets()) != 7) return;
    if ((facts_.kinds & ~kHonors) == 0) return offer_yakuman(flag(Yaku::Tsuuiisou));
    std::uint64_t yaku = flag(Yaku::Chiitoitsu) | flush_yaku(facts_.kinds);
    if ((facts_.kinds & kYaochuu) == 0) yaku |= flag(Yaku::Tanyao);
    if ((facts_.kinds & ~kYaochuu) == 0) yaku |= flag(Yaku::Honroutou);
    offer_ordinary(yaku, 25);
  }

  void try_standard(const Placed& placed);
  std::uint64_t shape_yakuman(const Placed& placed) const;
  std::uint64_t shape_yaku(const Placed& placed) const;
  int fu_of(const Placed& placed, bool pinfu_shape) const;
  bool two_sided(const Placed& placed) const;

  bool won_open(const Placed& placed, int group) const { return !q_.tsumo && placed.win_group == group; }
  int pair_fu(Kind pair) const {
    if (pair >= 31) return 2;
    const int round = pair == 27 + q_.round_wind, seat = pair == 27 + q_.seat_wind;
    return round + seat == 2 ? (rules_.double_wind_pair_4fu ? 4 : 2) : 2 * (round + seat);
  }

  // Over concealed groups and melds alike; gathered once per placement.
  struct Sets {
    KindSet runs = 0, triplets = 0;
    int run_count = 0, triplet_count = 0, concealed_triplets = 0, kans = 0, equal_runs = 0;
    bool all_touch_yaochuu = true;  // each group and the pair hold a terminal or honour
  } sets_;
  void collect(const Placed& placed);
  void add_run(Kind kind) {
    sets_.equal_runs += (sets_.runs >> kind & 1) != 0;
    // A third and fourth equal run pair up only once more, so the bit is taken back.
    sets_.runs ^= bit(kind);
    all_runs_ |= bit(kind);
    ++sets_.run_count;
    sets_.all_touch_yaochuu &= number_of(kind) == 0 || number_of(kind) == 6;
  }
  void add_triplet(Kind kind, bool concealed, bool kan) {
    sets_.triplets |= bit(kind);
    ++sets_.triplet_count;
    sets_.concealed_triplets += concealed;
    sets_.kans += kan;
    sets_.all_touch_yaochuu &= (kYaochuu >> kind & 1) != 0;
  }
  KindSet all_runs_ = 0;

  const WinQuery& q_;
  const Rules& rules_;
  Facts facts_;
  WinScore best_;
};

void Evaluator::collect(const Placed& placed) {
  sets_ = {};
  all_runs_ = 0;
  const Reading& reading = placed.reading;
  for (int g = 0; g < reading.size; ++g) {
    const Group group = reading.groups[static_cast<std::size_t>(g)];
    if (group.run)
      add_run(group.kind);
    else
      add_triplet(group.kind, !won_open(placed, g), false);
  }
  for (const Meld& meld : q_.melds) {
    if (meld.type == MeldType::Chi)
      add_run(meld.kind());
    else
      add_triplet(meld.kind(), !meld.is_open(), meld.is_kan());
  }
  sets_.all_touch_yaochuu &= (kYaochuu >> reading.pair & 1) != 0;
}

std::uint64_t Evaluator::shape_yakuman(const Placed& placed) const {
  std::uint64_t yaku = 0;
  const Kind pair = placed.reading.pair;
  if ((sets_.triplets & kDragons) == kDragons) yaku |= flag(Yaku::Daisangen);
  const int winds = __builtin_popcountll(sets_.triplets & kWinds);
  if (winds == 4) yaku |= flag(Yaku::Daisuushii);
  if (winds == 3 && (kWinds >> pair & 1) != 0) yaku |= flag(Yaku::Shousuushii);
  if ((facts_.kinds & ~kHonors) == 0) yaku |= flag(Yaku::Tsuuiisou);
  if ((facts_.kinds & ~kTerminals) == 0) yaku |= flag(Yaku::Chinroutou);
  if ((facts_.kinds & ~kGreens) == 0) yaku |= flag(Yaku::Ryuuiisou);
  if (sets_.concealed_triplets == 4)
    yaku |= flag(placed.win_group < 0 ? Yaku::SuuankouTanki : Yaku::Suuankou);
  if (sets_.kans == 4) yaku |= flag(Yaku::Suukantsu);
  if (q_.melds.empty() && flush_yaku(facts_.kinds) == flag(Yaku::Chinitsu)) {
    const auto base = static_cast<std::size_t>(pair / 9 * 9);
    const Kind win = kind_of(q_.win_tile);
    bool gates = true, pure = true;
    for (std::size_t n = 0; n < 9; ++n) {
      const int need = n == 0 || n == 8 ? 3 : 1, have = q_.hand.count[base + n];
      gates &= have >= need;
      pure &= have - (base + n == win) == need;
    }
    if (gates) yaku |= flag(pure ? Yaku::JunseiChuuren : Yaku::ChuurenPoutou);
  }
  return yaku;
}

std::uint64_t Evaluator::shape_yaku(const Placed& placed) const {
  std::uint64_t yaku = flush_yaku(facts_.kinds);
  const Kind pair = placed.reading.pair;
  const auto set = [&](bool holds, Yaku one) { yaku |= holds ? flag(one) : 0; };
  const KindSet t = sets_.triplets;
  set((facts_.kinds & kYaochuu) == 0 && (facts_.closed || rules_.open_tanyao), Yaku::Tanyao);
  set((t >> (27 + q_.seat_wind) & 1) != 0, offset(Yaku::SeatEast, q_.seat_wind));
  set((t >> (27 + q_.round_wind) & 1) != 0, offset(Yaku::RoundEast, q_.round_wind));
  for (int dragon = 0; dragon < 3; ++dragon) set((t >> (31 + dragon) & 1) != 0, offset(Yaku::Haku, dragon));
  set(__builtin_popcountll(t & kDragons) == 2 && pair >= 31, Yaku::Shousangen);
  set(facts_.closed && sets_.equal_runs == 1, Yaku::Iipeikou);
  set(facts_.closed && sets_.equal_runs == 2, Yaku::Ryanpeikou);
  set(sets_.kans == 3, Yaku::Sankantsu);
  set(sets_.triplet_count == 4, Yaku::Toitoi);
  set(sets_.concealed_triplets == 3, Yaku::Sanankou);
  const KindSet low = 0x1FF;
  const KindSet runs = all_runs_;
  set((runs & runs >> 9 & runs >> 18 & low) != 0, Yaku::SanshokuDoujun);
  set((t & t >> 9 & t >> 18 & low) != 0, Yaku::SanshokuDoukou);
  const KindSet straight = bit(0) | bit(3) | bit(6);
  for (int suit = 0; suit < 3; ++suit) set((runs >> (9 * suit) & straight) == straight, Yaku::Ittsu);
  const bool only_yaochuu = (facts_.kinds & ~kYaochuu) == 0;
  set(only_yaochuu, Yaku::Honroutou);
  if (sets_.all_touch_yaochuu && !only_yaochuu)
    set(true, (facts_.kinds & kHonors) != 0 ? Yaku::Chanta : Yaku::Junchan);
  return yaku;
}

bool Evaluator::two_sided(const Placed& placed) const {
  if (placed.win_group < 0) return false;
  const Group group = placed.reading.groups[static_cast<std::size_t>(placed.win_group)];
  if (!group.run) return false;
  const int at = kind_of(q_.win_tile) - group.kind;
  return (at == 0 && number_of(group.kind) != 6) || (at == 2 && number_of(group.kind) != 0);
}

int Evaluator::fu_of(const Placed& placed, bool pinfu_shape) const {
  if (pinfu_shape && facts_.closed) return q_.tsumo ? 20 : 30;
  int fu = 20 + pair_fu(placed.reading.pair);
  if (!q_.tsumo && facts_.closed) fu += 10;
  if (q_.tsumo) fu += 2;
  for (int g = 0; g < placed.reading.size; ++g) {
    const Group group = placed.reading.groups[static_cast<std::size_t>(g)];
    if (group.run) continue;
    fu += ((kYaochuu >> group.kind & 1) != 0 ? 8 : 4) / (won_open(placed, g) ? 2 : 1);
  }
  for (const Meld& meld : q_.melds) {
    if (meld.type == MeldType::Chi) continue;
    const int simple = meld.is_kan() ? (meld.is_open() ? 8 : 16) : 2;
    fu += (kYaochuu >> meld.kind() & 1) != 0 ? 2 * simple : simple;
  }
  const bool run_wait =
      placed.win_group >= 0 && placed.reading.groups[static_cast<std::size_t>(placed.win_group)].run;
  if (placed.win_group < 0 || (run_wait && !two_sided(placed))) fu += 2;
  if (fu == 20) return 30;  // an open hand in the shape of pinfu
  return (fu + 9) / 10 * 10;
}

void Evaluator::try_standard(const Placed& placed) {
  collect(placed);
  if (const std::uint64_t yakuman = shape_yakuman(placed)) return offer_yakuman(yakuman);
  const bool pinfu_shape = sets_.run_count == 4 && pair_fu(placed.reading.pair) == 0 && two_sided(placed);
  std::uint64_t yaku = shape_yaku(placed);
  if (pinfu_shape && facts_.closed) yaku |= flag(Yaku::Pinfu);
  offer_ordinary(yaku, fu_of(placed, pinfu_shape));
}

}  // namespace

std::string_view yaku_name(Yaku yaku) { return kYaku[static_cast<std::size_t>(yaku)].name; }

int yaku_han(Yaku yaku, bool open) {
  const YakuRow& row = kYaku[static_cast<std::size_t>(yaku)];
  return open ? row.open : row.closed;
}

WinScore score_win(const WinQuery& query, const Rules& rules) { return Evaluator(query, rules).best(); }

std::int32_t base_points(int han, int fu, const Rules& rules) {
  if (han >= 13) return rules.kazoe_yakuman ? 8000 : 6000;
  if (han >= 11) return 6000;
  if (han >= 8) return 4000;
  if (han >= 6) return 3000;
  if (han >= 5) return 2000;
  const int base = fu << (2 + han);
  if (base >= 2000 || (rules.kiriage_mangan && base == 1920)) return 2000;
  return base;
}

Payment payment_for(std::int32_t base, bool winner_is_dealer) {
  const auto up = [](std::int32_t points) { return (points + 99) / 100 * 100; };
  if (winner_is_dealer) return {up(6 * base), up(2 * base), 0};
  return {up(4 * base), up(base), up(2 * base)};
}

}  // namespace ingot::mahjong

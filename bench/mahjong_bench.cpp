// The speed of the mahjong engine: random full games, shanten, scoring, encoding. Run with one core free:
//   ./build/bench/mahjong_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
// tools/bench/mahjong_peers.py times the PyPI packages `mahjong` and `riichienv` on the same work.
#include <chrono>

#include <benchmark/benchmark.h>

#include "ingot/base/rng.h"
#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/oracle.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/table.h"

namespace ingot::mahjong {
namespace {

int play_random_game(const Rules& rules, std::uint64_t seed, bool checked) {
  Table table = start_game(rules, seed_from_number(seed));
  std::uint64_t random = seed;  // the choice is not what is measured: a multiplicative generator
  int actions = 0;
  while (!table.over()) {
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table);
      continue;
    }
    const int player = __builtin_ctz(table.to_act());
    const ActionList legal = legal_actions(table, player);
    random = random * 6364136223846793005U + 1442695040888963407U;
    const Action action = legal[(random >> 32) * legal.size() >> 32];
    if (checked)
      apply(table, player, action);
    else
      apply_trusted(table, player, action);
    ++actions;
  }
  return actions;
}

void random_hanchan(benchmark::State& state) {
  prepare_shanten_tables();
  const Rules rules = Rules::tenhou();
  auto seed = static_cast<std::uint64_t>(state.thread_index()) << 32;
  std::int64_t actions = 0;
  for (auto _ : state) actions += play_random_game(rules, ++seed, state.range(0) != 0);
  state.SetItemsProcessed(state.iterations());
  state.counters["actions/game"] =
      benchmark::Counter(static_cast<double>(actions) / static_cast<double>(state.iterations()),
                         benchmark::Counter::kAvgThreads);
}
BENCHMARK(random_hanchan)->ArgName("checked")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(random_hanchan)  // items per second over one thread's is the scaling
    ->ArgName("checked")
    ->Arg(0)
    ->Threads(2)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

std::vector<Hand> random_hands(int size) {
  prepare_shanten_tables();  // else the first call of a benchmark that runs alone builds them
  std::vector<Hand> hands;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const Wall wall = shuffle_wall(seed_from_number(i));
    Hand hand;
    for (int n = 0; n < size; ++n) hand.add_kind(static_cast<Kind>(wall[static_cast<std::size_t>(n)] / 4));
    hands.push_back(hand);
  }
  return hands;
}

void shanten_of_random_hands(benchmark::State& state) {
  const auto hands = random_hands(static_cast<int>(state.range(0)));
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(shanten(hands[i++ & 4095], 0));
}
BENCHMARK(shanten_of_random_hands)->ArgName("tiles")->Arg(13)->Arg(14);

void shanten_from_counts(benchmark::State& state) {  // with the table rows computed afresh
  const auto hands = random_hands(14);
  std::size_t i = 0;
  for (auto _ : state) {
    Hand hand = hands[i++ & 4095];
    hand.suit = {};
    for (std::size_t kind = 0; kind < kKinds; ++kind)
      hand.suit[kind / 9] += static_cast<std::uint32_t>(hand.count[kind]) * detail::kWeights[kind];
    benchmark::DoNotOptimize(shanten(hand, 0));
  }
}
BENCHMARK(shanten_from_counts);

void acceptance_of_random_hands(benchmark::State& state) {
  const auto hands = random_hands(13);
  const KindCounts seen;
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(acceptance(hands[i++ & 4095], 0, seen));
}
BENCHMARK(acceptance_of_random_hands);

void score(benchmark::State& state) {
  const struct {
    const char *hand, *win;
    bool tsumo;
  } cases[] = {{"123m456m789p34555s", "3s", true}, {"111222333m99p789s", "7s", false},
               {"22334455667788p", "2p", true},    {"112233m445566p77s", "7s", false},
               {"234678m34566777s", "6s", false},  {"111m999p123s11155z", "5z", true}};
  std::vector<Hand> hands;
  for (const auto& one : cases) hands.push_back(make_hand(one.hand));
  const Tile indicators[] = {3};
  const Rules rules = Rules::tenhou();
  std::size_t i = 0;
  for (auto _ : state) {
    const auto& one = cases[i % std::size(cases)];
    WinQuery q{
        .hand = hands[i % std::size(cases)], .melds = {}, .win_tile = parse_tile(std::string_view(one.win))};
    q.tsumo = one.tsumo;
    q.riichi = true;
    q.indicators = indicators;
    benchmark::DoNotOptimize(score_win(q, rules));
    ++i;
  }
}
BENCHMARK(score);

// Tables of one random game, with the seat that must act, at every decision.
std::vector<std::pair<Table, int>> positions() {
  std::vector<std::pair<Table, int>> seen;
  Table table = start_game(Rules::tenhou(), seed_from_number(3));
  ChaCha8 random(game_seed(table.session, 1));
  while (!table.over()) {
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table);
      continue;
    }
    const int player = __builtin_ctz(table.to_act());
    seen.emplace_back(table, player);
    const ActionList legal = legal_actions(table, player);
    apply_trusted(table, player, legal[random.below(static_cast<std::uint32_t>(legal.size()))]);
  }
  return seen;
}

// What a network would be asked.
std::vector<Observation> decisions() {
  std::vector<Observation> seen;
  for (const auto& [table, player] : positions()) seen.push_back(observe(table, player));
  return seen;
}

// What an oracle critic is told.
void encode_hidden(benchmark::State& state) {
  const auto seen = positions();
  std::vector<float> out(static_cast<std::size_t>(kOracleChannels) * kKinds);
  std::size_t i = 0;
  for (auto _ : state) {
    encode_oracle(seen[i].first, seen[i].second, out);
    benchmark::DoNotOptimize(out.data());
    if (++i == seen.size()) i = 0;
  }
}
BENCHMARK(encode_hidden);

void encode_full(benchmark::State& state) {
  const auto seen = decisions();
  std::vector<float> out(kChannels * kKinds);
  std::size_t i = 0;
  for (auto _ : state) {
    encode(seen[i], out);
    benchmark::DoNotOptimize(out.data());
    if (++i == seen.size()) i = 0;
  }
}
BENCHMARK(encode_full);

// As a program that learns has it: tables of random games go on, all four seats are observed, and of that
// only the four encodings are timed (with the two looks at the clock), each kept up since the game began.
template <class Encode>
void time_in_play(benchmark::State& state, Encode&& encode_one) {
  prepare_shanten_tables();
  Table table = start_game(Rules::tenhou(), seed_from_number(3));
  ChaCha8 random(game_seed(table.session, 1));
  for (auto _ : state) {
    if (table.over()) table = start_game(Rules::tenhou(), table.session, table.nonce + 1);
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table);
    } else {
      const int player = __builtin_ctz(table.to_act());
      const ActionList legal = legal_actions(table, player);
      apply_trusted(table, player, legal[random.below(static_cast<std::uint32_t>(legal.size()))]);
    }
    const std::array<Observation, 4> seen = {observe(table, 0), observe(table, 1), observe(table, 2),
                                             observe(table, 3)};
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t seat = 0; seat < 4; ++seat) encode_one(seen[seat], seat);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count() / 4);
  }
}

void encode_full_in_play(benchmark::State& state) {
  std::vector<float> out(kChannels * kKinds);
  time_in_play(state, [&](const Observation& one, std::size_t) {
    encode(one, out);
    benchmark::DoNotOptimize(out.data());
  });
}
BENCHMARK(encode_full_in_play)->UseManualTime();

void encode_after_event(benchmark::State& state) {
  std::array<IncrementalEncoder, 4> encoders;
  time_in_play(state, [&](const Observation& one, std::size_t seat) {
    benchmark::DoNotOptimize(encoders[seat].encode(one).data());
  });
}
BENCHMARK(encode_after_event)->UseManualTime();

void encode_incremental(benchmark::State& state) {  // one seat's encoder shown the game after every decision
  std::vector<Observation> seen;
  for (Observation& one : decisions())
    if (one.seat == 0) seen.push_back(one);
  IncrementalEncoder encoder;
  std::size_t i = 0;
  std::int64_t rows = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(encoder.encode(seen[i]).data());
    rows += encoder.rows_written();
    if (++i == seen.size()) i = 0;
  }
  state.counters["rows"] = static_cast<double>(rows) / static_cast<double>(state.iterations());
}
BENCHMARK(encode_incremental);

// The same from a recording of one game, 3 MB that come from the outer caches.
void encode_recorded_events(benchmark::State& state) {
  Table table = start_game(Rules::tenhou(), seed_from_number(3));
  std::vector<std::array<Observation, 4>> seen;
  ChaCha8 random(game_seed(table.session, 1));
  while (!table.over()) {
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table);
      continue;
    }
    seen.push_back({observe(table, 0), observe(table, 1), observe(table, 2), observe(table, 3)});
    const int player = __builtin_ctz(table.to_act());
    const ActionList legal = legal_actions(table, player);
    apply_trusted(table, player, legal[random.below(static_cast<std::uint32_t>(legal.size()))]);
  }
  std::array<IncrementalEncoder, 4> encoders;
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(encoders[i & 3].encode(seen[i >> 2][i & 3]).data());
    if (++i == 4 * seen.size()) i = 0;
  }
}
BENCHMARK(encode_recorded_events);

void copy_table(benchmark::State& state) {
  const Table table = start_game(Rules::tenhou(), seed_from_number(1));
  for (auto _ : state) {
    Table copy = table;
    benchmark::DoNotOptimize(copy);
  }
}
BENCHMARK(copy_table);

}  // namespace
}  // namespace ingot::mahjong

BENCHMARK_MAIN();

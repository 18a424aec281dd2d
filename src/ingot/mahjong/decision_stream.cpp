#include "ingot/mahjong/decision_stream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"

namespace ingot::mahjong {
namespace {

// Streams of random numbers.
constexpr std::uint64_t kGameOrder = 0x6761, kPoolOrder = 0x706F, kSuits = 0x7375, kReserve = 0x7265;

RngKey key_of(std::uint64_t seed, std::uint64_t what, std::int64_t epoch, std::uint64_t which) {
  return {.seed = seed, .stream = mix_stream(mix_stream(what, static_cast<std::uint64_t>(epoch)), which)};
}

template <class T>
void shuffle(std::vector<T>& items, RngKey key) {
  Rng random(key);
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

}  // namespace

DecisionStream::DecisionStream(const GameIndex& index, const DecisionStreamOptions& options)
    : games_(index.games()), rules_(index.rules()), options_(options) {
  INGOT_CHECK(!games_.empty(), InvalidConfig("data", "holds no game that can be replayed"));
  INGOT_CHECK(options.pool_games > 0,
              InvalidConfig("pool_games", "must be positive, got " + std::to_string(options.pool_games)));
}

DecisionStream::~DecisionStream() {
  if (ahead_.valid()) ahead_.wait();
}

std::int64_t DecisionStream::pools() const {
  return (std::ssize(games_) + options_.pool_games - 1) / options_.pool_games;
}

std::vector<std::size_t> DecisionStream::order_of_epoch(std::int64_t epoch) const {
  std::vector<std::size_t> order(games_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, key_of(options_.seed, kGameOrder, epoch, 0));
  return order;
}

DecisionStream::Pool DecisionStream::read_games(std::int64_t epoch, std::int64_t pool) const {
  Pool result;
  const std::vector<std::size_t> order = order_of_epoch(epoch);
  const bool last = pool + 1 == pools();
  const auto first = static_cast<std::size_t>(pool * options_.pool_games);
  const std::size_t end = std::min(order.size(), first + static_cast<std::size_t>(options_.pool_games));
  for (std::size_t i = first; i < end; ++i) {
    const std::size_t game = order[i];
    LabelledGame labelled;
    try {
      labelled = label_game(read_log(games_[game].path, rules_));
    } catch (const Error& error) {
      result.skipped.emplace_back(error.what());
      continue;
    }
    const int renaming = options_.permute_suits
                             ? static_cast<int>(Rng(key_of(options_.seed, kSuits, epoch, game)).below(6))
                             : 0;
    const SuitPermutation suits = SuitPermutation::number(renaming);
    const RngKey waits = key_of(options_.seed, kReserve, epoch, game);
    std::uint64_t number = 0;
    for (LabelledDecision& decision : labelled.decisions) {
      if (!games_[game].seats[decision.observation.seat].kept) continue;
      const float drawn = uniform_from_bits(waits.block(number++)[0]);
      auto& to = !last && static_cast<double>(drawn) < options_.reserve ? result.reserved : result.decisions;
      to.push_back(renaming == 0 ? std::move(decision) : decision.permuted(suits));
    }
  }
  return result;
}

DecisionStream::Pool DecisionStream::make_pool(Position at, std::vector<LabelledDecision> waiting) const {
  Pool pool = read_games(at.epoch, at.pool);
  pool.decisions.insert(pool.decisions.end(), waiting.begin(), waiting.end());
  shuffle(pool.decisions, key_of(options_.seed, kPoolOrder, at.epoch, static_cast<std::uint64_t>(at.pool)));
  return pool;
}

DecisionStream::Position DecisionStream::after(Position at) const {
  return at.pool + 1 < pools() ? Position{at.epoch, at.pool + 1, 0} : Position{at.epoch + 1, 0, 0};
}

void DecisionStream::read_ahead() {
  ahead_ = std::async(std::launch::async, [this, at = after(position_), waiting = pool_.reserved] {
    return make_pool(at, waiting);
  });
}

void DecisionStream::take_next_pool() {
  position_ = after(position_);
  pool_ = ahead_.get();
  skipped_.insert(skipped_.end(), pool_.skipped.begin(), pool_.skipped.end());
  read_ahead();
}

void DecisionStream::seek(const Position& position) {
  if (ahead_.valid()) ahead_.wait();
  const bool fits =
      position.epoch >= 0 && position.pool >= 0 && position.pool < pools() && position.next >= 0;
  INGOT_CHECK(fits, InvalidConfig("data", "the position in it is not one of these games"));
  std::vector<LabelledDecision> waiting;
  if (position.pool > 0) waiting = read_games(position.epoch, position.pool - 1).reserved;
  position_ = position;
  pool_ = make_pool(position, std::move(waiting));
  skipped_.insert(skipped_.end(), pool_.skipped.begin(), pool_.skipped.end());
  has_pool_ = true;
  read_ahead();
}

std::span<const LabelledDecision> DecisionStream::next(std::size_t count) {
  if (!has_pool_) seek(position_);
  batch_.clear();
  batch_.reserve(count);
  std::int64_t empty = 0;
  while (batch_.size() < count) {
    const auto begin = static_cast<std::size_t>(position_.next);
    const std::size_t take = std::min(count - batch_.size(), pool_.decisions.size() - begin);
    const auto first = pool_.decisions.begin() + static_cast<std::ptrdiff_t>(begin);
    batch_.insert(batch_.end(), first, first + static_cast<std::ptrdiff_t>(take));
    position_.next += static_cast<std::int64_t>(take);
    empty = pool_.decisions.empty() ? empty + 1 : 0;
    INGOT_CHECK(empty <= pools(),
                IoError(games_.front().path, "and all other games cannot be read any more"));
    if (batch_.size() < count) take_next_pool();
  }
  return batch_;
}

}  // namespace ingot::mahjong

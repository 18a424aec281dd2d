#include "ingot/rl/connect_four.h"

#include <algorithm>

#include "ingot/base/error.h"

namespace ingot {
namespace {

constexpr int kWin = 1000;  // less the moves until then
constexpr std::array<int, ConnectFour::kColumns> kInnerFirst{3, 2, 4, 1, 5, 0, 6};

// What the position is worth for the one to move, who looks so many moves ahead.
int negamax(const ConnectFour& game, int depth, int low, int high) {
  if (game.won()) return -kWin - depth;
  if (depth == 0 || game.full()) return 0;
  for (const int column : kInnerFirst) {
    if (!game.may(column)) continue;
    ConnectFour next = game;
    next.drop(column);
    low = std::max(low, -negamax(next, depth - 1, -high, -low));
    if (low >= high) break;
  }
  return low;
}

}  // namespace

void ConnectFour::observe(std::span<float> out) const {
  for (std::size_t column = 0; column < kColumns; ++column)
    for (std::size_t row = 0; row < kRows; ++row) {
      const Stones bit = Stones{1} << (column * (kRows + 1) + row);
      if ((all & bit) != 0) out[((own & bit) != 0 ? 0 : kRows * kColumns) + row * kColumns + column] = 1;
    }
}

void ConnectFour::legal(std::span<float> out) const {
  for (int column = 0; column < kColumns; ++column)
    out[static_cast<std::size_t>(column)] = may(column) ? 1.0F : 0.0F;
}

void ConnectFour::drop(int column) {
  INGOT_ASSERT(column >= 0 && column < kColumns && may(column));
  own ^= all;  // the other's, who moves next
  all |= all + (Stones{1} << (column * (kRows + 1)));
}

bool ConnectFour::won() const {
  const Stones last = own ^ all;
  for (const int step : {1, kRows, kRows + 1, kRows + 2}) {  // up, down right, right, up right
    const Stones pairs = last & last >> step;
    if ((pairs & pairs >> 2 * step) != 0) return true;
  }
  return false;
}

bool ConnectFour::act(std::int32_t action, std::span<float> rewards) {
  const auto mover = static_cast<std::size_t>(player());
  drop(action);
  if (!won()) return full();
  rewards[mover] = 1;
  rewards[1 - mover] = -1;
  return true;
}

std::array<std::optional<int>, ConnectFour::kColumns> search_connect_four(const ConnectFour& game,
                                                                          int depth) {
  INGOT_CHECK(depth >= 1, InvalidConfig("depth", "must be at least 1, got " + std::to_string(depth)));
  std::array<std::optional<int>, ConnectFour::kColumns> values;
  for (int column = 0; column < ConnectFour::kColumns; ++column) {
    if (!game.may(column)) continue;
    ConnectFour next = game;
    next.drop(column);
    values[static_cast<std::size_t>(column)] = -negamax(next, depth - 1, -2 * kWin, 2 * kWin);
  }
  return values;
}

int searched_column(const ConnectFour& game, int depth, Rng& random) {
  const auto values = search_connect_four(game, depth);
  const auto best = std::ranges::max(values);  // nothing is less than any value
  std::array<int, ConnectFour::kColumns> equal{};
  std::uint64_t count = 0;
  for (int column = 0; column < ConnectFour::kColumns; ++column)
    if (values[static_cast<std::size_t>(column)] == best) equal[count++] = column;
  return equal[random.below(count)];
}

}  // namespace ingot

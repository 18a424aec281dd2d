#include "ingot/tune/importance.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <limits>
#include <numeric>

#include "ingot/base/rng.h"

namespace ingot::tune {
namespace {

constexpr std::size_t kTrees = 64, kFewest = 10, kMostLeaves = 64, kMaskBits = 64;
constexpr double kAbsurd = 1e4;  // a trial blew up that is so many times as far from the median as the next

/// One side of a box: an interval of [0, 1], or a set of choices.
struct Side {
  double low = 0, high = 1;
  std::bitset<kMaskBits> choices;
  std::size_t count = 0;  // choices in all; 0: an interval

  double length() const {
    return count == 0 ? high - low : static_cast<double>(choices.count()) / static_cast<double>(count);
  }
};

struct Leaf {
  std::vector<Side> box;
  double value = 0;
  double volume() const {
    return std::accumulate(box.begin(), box.end(), 1.0,
                           [](double v, const Side& s) { return v * s.length(); });
  }
};

struct TreeSplit {
  std::size_t axis = 0;
  double at = 0;  // below it goes left; of choices: this one goes left
  double gain = 0;
};

/// The trials as a table: features in [0, 1] (choices as their index), targets.
struct Table {
  std::vector<std::vector<double>> x;  // by axis
  std::vector<double> y;
  std::vector<std::size_t> choices;  // by axis; 0: a number

  bool goes_left(const TreeSplit& split, std::size_t row) const {
    const double value = x[split.axis][row];
    return choices[split.axis] > 0 ? value == split.at : value < split.at;
  }
};

double scaled(const Parameter& p, double value) {
  const bool choice = p.kind == ParameterKind::categorical;
  if (std::isnan(value)) return choice ? 0 : 0.5;
  if (choice) return p.choices.size() <= kMaskBits ? value : value / static_cast<double>(p.choices.size());
  const auto [low, high] = p.range();
  return low == high ? 0.5 : ((p.log ? std::log(value) : value) - low) / (high - low);
}

// The targets as distances from their median, the farthest -1 or 1. TPE's trials crowd at the optimum and
// those far from it carry the effects, so a far one is not an outlier. One that blew up is: nothing leads up
// to it, nor has it the size of a value here. It, and what lies beyond, counts as far as the farthest of the
// others. Empty where all are equal.
std::vector<double> tame(std::vector<double> y) {
  std::vector<double> sorted = y;
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  if (!std::isfinite(median)) return {};
  for (double& distance : sorted) distance = std::abs(distance - median);
  std::ranges::sort(sorted);
  const auto blew_up = [&](double distance, double next) {
    return next > 0 && distance > kAbsurd * std::max(next, std::abs(median));
  };
  std::size_t farthest = sorted.size() * 3 / 4;
  while (farthest + 1 < sorted.size() && !blew_up(sorted[farthest + 1], sorted[farthest])) ++farthest;
  const double border = sorted[farthest];
  if (!(border > 0 && std::isfinite(border))) return {};
  for (double& value : y) value = std::clamp((value - median) / border, -1.0, 1.0);
  return y;
}

Table make_table(const SearchSpace& space, const std::vector<Trial>& trials, Direction direction) {
  Table table;
  table.x.resize(space.size());
  for (const Parameter& p : space.parameters) {
    const bool mask = p.kind == ParameterKind::categorical && p.choices.size() <= kMaskBits;
    table.choices.push_back(mask ? p.choices.size() : 0);
  }
  for (const Trial& trial : trials) {
    if (trial.state != TrialState::complete || std::isnan(trial.value)) continue;
    table.y.push_back(direction == Direction::minimize ? trial.value : -trial.value);
    for (std::size_t d = 0; d < space.size(); ++d) {
      table.x[d].push_back(scaled(space.parameters[d], trial.values[d]));
    }
  }
  table.y = table.y.size() < kFewest ? std::vector<double>() : tame(std::move(table.y));
  return table;
}

class Tree {
 public:
  Tree(const Table& table, std::vector<std::size_t> rows) : table_(table) {
    smallest_ = std::max<std::size_t>(2, rows.size() / kMostLeaves);
    std::vector<Side> box(table.x.size());
    for (std::size_t d = 0; d < box.size(); ++d) {
      box[d].count = table.choices[d];
      for (std::size_t c = 0; c < box[d].count; ++c) box[d].choices.set(c);
    }
    grow(std::move(rows), std::move(box));
  }
  const std::vector<Leaf>& leaves() const { return leaves_; }

 private:
  void grow(std::vector<std::size_t> rows, std::vector<Side> box) {
    const TreeSplit split = best_split(rows);
    if (split.gain <= 0) {
      double sum = 0;
      for (const std::size_t row : rows) sum += table_.y[row];
      leaves_.push_back({std::move(box), sum / static_cast<double>(rows.size())});
      return;
    }
    const auto middle = std::partition(rows.begin(), rows.end(),
                                       [&](std::size_t row) { return table_.goes_left(split, row); });
    std::vector<Side> left = box, right = std::move(box);
    if (table_.choices[split.axis] > 0) {
      const auto choice = static_cast<std::size_t>(split.at);
      left[split.axis].choices.reset();
      left[split.axis].choices.set(choice);
      right[split.axis].choices.reset(choice);
    } else {
      left[split.axis].high = right[split.axis].low = split.at;
    }
    grow({rows.begin(), middle}, std::move(left));
    grow({middle, rows.end()}, std::move(right));
  }

  TreeSplit best_split(const std::vector<std::size_t>& rows) const {
    TreeSplit best;
    if (rows.size() < 2 * smallest_) return best;
    for (std::size_t axis = 0; axis < table_.x.size(); ++axis) {
      const TreeSplit split = table_.choices[axis] > 0 ? best_choice(rows, axis) : best_threshold(rows, axis);
      if (split.gain > best.gain) best = split;
    }
    return best;
  }

  // How much the sum of squares falls when n rows of sum s are cut into (n1, s1) and the rest.
  static double gain(double n, double s, double n1, double s1) {
    const double n2 = n - n1, s2 = s - s1, whole = s * s / n;
    const double fall = s1 * s1 / n1 + s2 * s2 / n2 - whole;
    return fall > 1e-12 * std::abs(whole) + 1e-300 ? fall : 0;
  }

  TreeSplit best_threshold(std::vector<std::size_t> rows, std::size_t axis) const {
    const std::vector<double>& x = table_.x[axis];
    std::ranges::sort(rows, [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
    double sum = 0, left = 0;
    for (const std::size_t row : rows) sum += table_.y[row];
    TreeSplit best{.axis = axis};
    for (std::size_t i = 0; i + smallest_ < rows.size(); ++i) {
      left += table_.y[rows[i]];
      if (i + 1 < smallest_ || x[rows[i]] == x[rows[i + 1]]) continue;
      const double fall = gain(static_cast<double>(rows.size()), sum, static_cast<double>(i + 1), left);
      if (!(fall > best.gain)) continue;
      // Between neighbours of doubles there is no middle, and what is at the border goes right.
      const double middle = 0.5 * (x[rows[i]] + x[rows[i + 1]]);
      best = {axis, middle > x[rows[i]] ? middle : x[rows[i + 1]], fall};
    }
    return best;
  }

  TreeSplit best_choice(const std::vector<std::size_t>& rows, std::size_t axis) const {
    std::vector<double> sums(table_.choices[axis]), counts(table_.choices[axis]);
    double sum = 0;
    for (const std::size_t row : rows) {
      const auto choice = static_cast<std::size_t>(table_.x[axis][row]);
      sums[choice] += table_.y[row];
      counts[choice] += 1;
      sum += table_.y[row];
    }
    TreeSplit best{.axis = axis};
    const auto n = static_cast<double>(rows.size()), least = static_cast<double>(smallest_);
    for (std::size_t c = 0; c < sums.size(); ++c) {
      if (counts[c] < least || n - counts[c] < least) continue;
      const double fall = gain(n, sum, counts[c], sums[c]);
      if (fall > best.gain) best = {axis, static_cast<double>(c), fall};
    }
    return best;
  }

  const Table& table_;
  std::size_t smallest_;
  std::vector<Leaf> leaves_;
};

/// The variance of the tree's mean over all other axes, along one axis.
double variance_along(const std::vector<Leaf>& leaves, std::size_t axis, double mean) {
  const std::size_t choices = leaves.front().box[axis].count;
  std::vector<double> cuts;
  for (const Leaf& leaf : leaves) cuts.insert(cuts.end(), {leaf.box[axis].low, leaf.box[axis].high});
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const std::size_t pieces = choices > 0 ? choices : cuts.size() - 1;
  double variance = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const double length = choices > 0 ? 1 / static_cast<double>(choices) : cuts[piece + 1] - cuts[piece];
    double marginal = 0;
    for (const Leaf& leaf : leaves) {
      const Side& side = leaf.box[axis];
      const bool inside =
          choices > 0 ? side.choices.test(piece) : side.low <= cuts[piece] && cuts[piece + 1] <= side.high;
      if (inside) marginal += leaf.value * leaf.volume() / side.length();
    }
    variance += length * (marginal - mean) * (marginal - mean);
  }
  return variance;
}

}  // namespace

std::vector<double> parameter_importance(const SearchSpace& space, const std::vector<Trial>& trials,
                                         Direction direction) {
  const Table table = make_table(space, trials, direction);
  const std::size_t n = table.y.size();
  if (n < kFewest) return {};
  std::vector<double> shares(space.size());
  double counted = 0;
  for (std::size_t t = 0; t < kTrees; ++t) {
    Rng rng(RngKey{0, t});
    std::vector<std::size_t> rows(n);
    for (std::size_t& row : rows) row = static_cast<std::size_t>(rng.below(n));
    const Tree tree(table, rows);
    double mean = 0, square = 0;
    for (const Leaf& leaf : tree.leaves()) {
      mean += leaf.volume() * leaf.value;
      square += leaf.volume() * leaf.value * leaf.value;
    }
    const double variance = square - mean * mean;
    if (!(variance > 1e-14 * square)) continue;
    counted += 1;
    for (std::size_t d = 0; d < space.size(); ++d) {
      shares[d] += variance_along(tree.leaves(), d, mean) / variance;
    }
  }
  if (counted == 0) return {};
  for (double& share : shares) share /= counted;
  return shares;
}

}  // namespace ingot::tune

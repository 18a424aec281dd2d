#include "ingot/kernels/moving_average.h"

#include <algorithm>
#include <array>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

constexpr std::int64_t kLanes = 64;    // neighbours of the inner axis that are worked on together
constexpr std::int64_t kRowLanes = 8;  // lines at once where there is no inner axis: each is one chain
                                       // of additions, so several keep the adder busy

struct Line {
  std::int64_t length, window, before, after;  // before + 1 + after = window
};

// A sum that slides along `lanes` lines at once: elements of a line lie `step` apart, lines `apart`.
template <class T>
struct SlidingSum {
  const T* x;
  std::int64_t step, apart, lanes;
  std::array<double, kLanes> sum{};

  void add(std::int64_t i, double factor) {
    for (std::int64_t k = 0; k < lanes; ++k) {
      sum[static_cast<std::size_t>(k)] += factor * static_cast<double>(load(x + i * step + k * apart));
    }
  }
  void write(T* y, std::int64_t i, double scale, bool accumulate) const {
    for (std::int64_t k = 0; k < lanes; ++k) {
      store(y + i * step + k * apart, static_cast<Accumulator<T>>(sum[static_cast<std::size_t>(k)] * scale),
            accumulate);
    }
  }
};

// Mean over [i - before, i + after], the ends repeated.
template <class T>
void average(const Line& line, SlidingSum<T> sum, T* y, bool accumulate) {
  const std::int64_t last = line.length - 1;
  for (std::int64_t i = -line.before; i <= line.after; ++i) sum.add(std::clamp<std::int64_t>(i, 0, last), 1);
  for (std::int64_t i = 0; i <= last; ++i) {
    if (i > 0) {
      sum.add(std::min(i + line.after, last), 1);
      sum.add(std::max<std::int64_t>(i - line.before - 1, 0), -1);
    }
    sum.write(y, i, 1.0 / static_cast<double>(line.window), accumulate);
  }
}

// Element j goes to the averages of [j - after, j + before]; the ends also to those that reach beyond them.
template <class T>
void spread(const Line& line, SlidingSum<T> sum, T* y, bool accumulate) {
  const std::int64_t n = line.length;
  const auto beyond = [&](std::int64_t j) {  // what the ends get on top
    SlidingSum<T> extra{sum.x, sum.step, sum.apart, sum.lanes};
    for (std::int64_t i = 0; j == 0 && i < std::min(n, line.before); ++i)
      extra.add(i, static_cast<double>(line.before - i));
    for (std::int64_t i = std::max<std::int64_t>(0, n - line.after); j == n - 1 && i < n; ++i) {
      extra.add(i, static_cast<double>(i + line.after + 1 - n));
    }
    return extra;
  };
  const double scale = 1.0 / static_cast<double>(line.window);
  for (std::int64_t i = 0; i < std::min(n, line.before); ++i) sum.add(i, 1);
  for (std::int64_t j = 0; j < n; ++j) {
    if (j + line.before < n) sum.add(j + line.before, 1);
    if (j - line.after - 1 >= 0) sum.add(j - line.after - 1, -1);
    sum.write(y, j, scale, accumulate);
    if (j == 0 || j == n - 1) beyond(j).write(y, j, scale, true);
  }
}

void moving_average_reference(const MovingAverageArgs& args, Stream) {
  dispatch_float(args.x.dtype, "moving_average", [&]<class T>() {
    const std::int64_t outer = args.x.dim(0), n = args.x.dim(1), inner = args.x.dim(2);
    const Line line{n, args.window, args.window / 2, args.window - 1 - args.window / 2};
    const bool rows = inner == 1;
    const std::int64_t across = rows ? outer : inner, most = rows ? kRowLanes : kLanes;
    const std::int64_t blocks = (across + most - 1) / most;
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (n * std::min(across, most)));
    parallel_for((rows ? 1 : outer) * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t lane = item % blocks * most, lanes = std::min(most, across - lane);
        const std::int64_t offset = item / blocks * n * inner + lane * (rows ? n : 1);
        const SlidingSum<T> sum{args.x.as<T>() + offset, inner, rows ? n : 1, lanes};
        T* y = args.y.as<T>() + offset;
        args.transposed ? spread(line, sum, y, args.accumulate) : average(line, sum, y, args.accumulate);
      }
    });
  });
}

}  // namespace

void register_moving_average_reference() {
  moving_average.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, moving_average_reference});
}

}  // namespace ingot::kernels::cpu

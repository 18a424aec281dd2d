#include "ingot/kernels/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

/// Places of one window along one axis: first, first + step, ... below end; `size` counts padding too.
struct Range {
  std::int64_t first, end, step, size;
};

template <class Args>
Range range(const Args& args, std::size_t axis, std::int64_t i, std::int64_t in, std::int64_t out) {
  if (args.adaptive) {
    const std::int64_t first = i * in / out, end = ((i + 1) * in + out - 1) / out;
    return {first, end, 1, end - first};
  }
  const ConvGeometry& g = args.geometry;
  const std::int64_t step = g.dilation[axis], begin = i * g.stride[axis] - g.padding[axis];
  const std::int64_t skipped = begin < 0 ? (-begin + step - 1) / step : 0;
  return {begin + skipped * step, std::min(in, begin + args.window[axis] * step), step, args.window[axis]};
}

std::int64_t count(const Range& r) { return r.end > r.first ? (r.end - r.first + r.step - 1) / r.step : 0; }

/// One sample's sizes and strides in either layout.
struct Plane {
  std::int64_t c, h, w, channel, place;
  Plane(const View& x, bool last)
      : c(x.dim(last ? 3 : 1)),
        h(x.dim(last ? 1 : 2)),
        w(x.dim(last ? 2 : 3)),
        channel(last ? 1 : h * w),
        place(last ? c : 1) {}
  std::int64_t size() const { return c * h * w; }
};

template <class Acc>
Acc divisor(PoolMode mode, const Range& rows, const Range& columns) {
  return static_cast<Acc>(mode == PoolMode::average ? rows.size * columns.size
                                                    : count(rows) * count(columns));
}

template <class T>
void forward_sample(const PoolArgs& args, std::int64_t n) {
  using Acc = Accumulator<T>;
  const Plane in(args.x, args.geometry.channels_last), out(args.y, args.geometry.channels_last);
  const T* x = args.x.as<T>() + n * in.size();
  T* y = args.y.as<T>() + n * out.size();
  for (std::int64_t place = 0; place < out.h * out.w; ++place) {
    const Range rows = range(args, 0, place / out.w, in.h, out.h);
    const Range columns = range(args, 1, place % out.w, in.w, out.w);
    for (std::int64_t c = 0; c < out.c; ++c) {
      Acc sum = 0, best = -std::numeric_limits<Acc>::infinity();
      std::int64_t best_at = -1;
      for (std::int64_t h = rows.first; h < rows.end; h += rows.step) {
        for (std::int64_t w = columns.first; w < columns.end; w += columns.step) {
          const Acc value = load(x + c * in.channel + (h * in.w + w) * in.place);
          sum += value;
          if (best_at < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
            best = value;
            best_at = h * in.w + w;
          }
        }
      }
      const std::int64_t at = c * out.channel + place * out.place;
      if (args.mode == PoolMode::max) {
        args.index.as<std::int32_t>()[n * out.size() + at] = static_cast<std::int32_t>(best_at);
        store(y + at, best);
      } else {
        store(y + at, sum / divisor<Acc>(args.mode, rows, columns));
      }
    }
  }
}

template <class T>
void backward_sample(const PoolBackwardArgs& args, std::int64_t n, Accumulator<T>* sums) {
  using Acc = Accumulator<T>;
  const Plane in(args.dx, args.geometry.channels_last), out(args.dy, args.geometry.channels_last);
  const T* dy = args.dy.as<T>() + n * out.size();
  std::fill_n(sums, in.size(), Acc{0});
  for (std::int64_t place = 0; place < out.h * out.w; ++place) {
    const Range rows = range(args, 0, place / out.w, in.h, out.h);
    const Range columns = range(args, 1, place % out.w, in.w, out.w);
    for (std::int64_t c = 0; c < out.c; ++c) {
      const std::int64_t at = c * out.channel + place * out.place;
      if (args.mode == PoolMode::max) {
        const std::int32_t from = args.index.as<std::int32_t>()[n * out.size() + at];
        if (from >= 0)
          sums[c * in.channel + from * in.place] += load(dy + at);  // a dilated window may hold none
        continue;
      }
      const Acc share = load(dy + at) / divisor<Acc>(args.mode, rows, columns);
      for (std::int64_t h = rows.first; h < rows.end; h += rows.step) {
        for (std::int64_t w = columns.first; w < columns.end; w += columns.step) {
          sums[c * in.channel + (h * in.w + w) * in.place] += share;
        }
      }
    }
  }
  T* dx = args.dx.as<T>() + n * in.size();
  for (std::int64_t i = 0; i < in.size(); ++i) store(dx + i, sums[i], args.accumulate);
}

void forward(const PoolArgs& args, Stream) {
  dispatch_float(args.x.dtype, "pool", [&]<class T>() {
    const std::int64_t n = args.x.dim(0),
                       grain = 16'384 / (1 + args.x.numel() / std::max<std::int64_t>(n, 1));
    parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) forward_sample<T>(args, i);
    });
  });
}

void backward(const PoolBackwardArgs& args, Stream) {
  dispatch_float(args.dx.dtype, "pool_backward", [&]<class T>() {
    const std::int64_t n = args.dx.dim(0), parts = args.scratch.dim(0);
    parallel_for(parts, 1 + 16'384 / (1 + args.dx.numel() / parts),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t part = first; part < last; ++part) {
                     auto* sums = args.scratch.as<Accumulator<T>>() + part * args.scratch.dim(1);
                     for (std::int64_t i = n * part / parts; i < n * (part + 1) / parts; ++i)
                       backward_sample<T>(args, i, sums);
                   }
                 });
  });
}

}  // namespace

void register_pool_reference() {
  pool.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, forward});
  pool_backward.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, backward});
}

}  // namespace ingot::kernels::cpu

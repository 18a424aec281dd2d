#include "ingot/kernels/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/pool_window.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

template <class T>
void forward_sample(const PoolArgs& args, std::int64_t n) {
  using Acc = Accumulator<T>;
  const Plane in(args.x, args.geometry.channels_last), out(args.y, args.geometry.channels_last);
  const T* x = args.x.as<T>() + n * in.size();
  T* y = args.y.as<T>() + n * out.size();
  for (std::int64_t position = 0; position < out.h * out.w; ++position) {
    const WindowRange rows = window_range(args, 0, position / out.w, in.h, out.h);
    const WindowRange columns = window_range(args, 1, position % out.w, in.w, out.w);
    for (std::int64_t c = 0; c < out.c; ++c) {
      Acc sum = 0, best = -std::numeric_limits<Acc>::infinity();
      std::int64_t best_at = -1;
      for (std::int64_t h = rows.first; h < rows.end; h += rows.step) {
        for (std::int64_t w = columns.first; w < columns.end; w += columns.step) {
          const Acc value = load(x + c * in.channel + (h * in.w + w) * in.position);
          sum += value;
          if (best_at < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
            best = value;
            best_at = h * in.w + w;
          }
        }
      }
      const std::int64_t at = c * out.channel + position * out.position;
      if (args.mode == PoolMode::max) {
        if (args.index)
          args.index.as<std::int32_t>()[n * out.size() + at] = static_cast<std::int32_t>(best_at);
        store(y + at, best);
      } else {
        store(y + at, sum / window_divisor<Acc>(args.mode, rows, columns));
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
  for (std::int64_t position = 0; position < out.h * out.w; ++position) {
    const WindowRange rows = window_range(args, 0, position / out.w, in.h, out.h);
    const WindowRange columns = window_range(args, 1, position % out.w, in.w, out.w);
    for (std::int64_t c = 0; c < out.c; ++c) {
      const std::int64_t at = c * out.channel + position * out.position;
      if (args.mode == PoolMode::max) {
        const std::int32_t from = args.index.as<std::int32_t>()[n * out.size() + at];
        if (from >= 0)
          sums[c * in.channel + from * in.position] += load(dy + at);  // a dilated window may hold none
        continue;
      }
      const Acc share = load(dy + at) / window_divisor<Acc>(args.mode, rows, columns);
      for (std::int64_t h = rows.first; h < rows.end; h += rows.step) {
        for (std::int64_t w = columns.first; w < columns.end; w += columns.step) {
          sums[c * in.channel + (h * in.w + w) * in.position] += share;
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

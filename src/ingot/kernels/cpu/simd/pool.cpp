#include "ingot/kernels/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ingot/base/parallel.h"
#include "ingot/kernels/cpu/pool_window.h"
#include "ingot/kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ingot/kernels/cpu/simd/pool.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ingot/kernels/cpu/simd/pool_plane-inl.h"

// Channels-last: one vector of channels at a time, its window in registers. Channels-first: one plane at a
// time (pool_plane-inl.h); position by position where a window's largest has to be found, not only told, and
// where windows differ in size.
HWY_BEFORE_NAMESPACE();
namespace ingot::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;

// One window of one sample: its positions, and where they lie in memory.
struct PoolPosition {
  WindowRange rows, columns;
  std::int64_t width = 0;  // of the input
  float divisor = 1;
};

// f(position number h·W + w) for every position of the window.
template <class F>
HWY_INLINE void for_each_position(const PoolPosition& p, F&& f) {
  for (std::int64_t h = p.rows.first; h < p.rows.end; h += p.rows.step) {
    for (std::int64_t w = p.columns.first; w < p.columns.end; w += p.columns.step) f(h * p.width + w);
  }
}

// Lanes [0, lanes) are channels; the last vector of a row may be partial.
HWY_INLINE hn::Vec<D> load_channels(const float* p, std::size_t lanes) {
  const D d;
  return lanes == hn::Lanes(d) ? hn::LoadU(d, p) : hn::MaskedLoad(hn::FirstN(d, lanes), d, p);
}
HWY_INLINE void store_channels(hn::Vec<D> v, float* p, std::size_t lanes) {
  const D d;
  if (lanes == hn::Lanes(d)) return hn::StoreU(v, d, p);
  hn::BlendedStore(v, hn::FirstN(d, lanes), d, p);
}

template <class F>
HWY_INLINE void for_each_vector(std::int64_t channels, F&& f) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  for (std::int64_t c = 0; c < channels; c += lanes)
    f(c, static_cast<std::size_t>(std::min(lanes, channels - c)));
}

void max_channels(const PoolPosition& p, std::int64_t channels, const float* x, float* y,
                  std::int32_t* index) {
  const D d;
  const DI di;
  for_each_vector(channels, [&](std::int64_t c, std::size_t lanes) {
    auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto best_at = hn::Set(di, -1);
    for_each_position(p, [&](std::int64_t position) {
      const auto value = load_channels(x + position * channels + c, lanes);
      const auto none = hn::RebindMask(d, hn::Lt(best_at, hn::Zero(di)));
      const auto take =
          hn::Or(hn::Or(none, hn::Gt(value, best)), hn::AndNot(hn::IsNaN(best), hn::IsNaN(value)));
      best = hn::IfThenElse(take, value, best);
      best_at =
          hn::IfThenElse(hn::RebindMask(di, take), hn::Set(di, static_cast<std::int32_t>(position)), best_at);
    });
    store_channels(best, y + c, lanes);
    if (index != nullptr) store_channels(hn::BitCast(d, best_at), reinterpret_cast<float*>(index + c), lanes);
  });
}

void average_channels(const PoolPosition& p, std::int64_t channels, const float* x, float* y) {
  const D d;
  for_each_vector(channels, [&](std::int64_t c, std::size_t lanes) {
    auto sum = hn::Zero(d);
    for_each_position(p, [&](std::int64_t position) {
      sum = hn::Add(sum, load_channels(x + position * channels + c, lanes));
    });
    store_channels(hn::Div(sum, hn::Set(d, p.divisor)), y + c, lanes);
  });
}

void average_channels_backward(const PoolPosition& p, std::int64_t channels, const float* dy, float* dx) {
  const D d;
  for_each_vector(channels, [&](std::int64_t c, std::size_t lanes) {
    const auto share = hn::Div(load_channels(dy + c, lanes), hn::Set(d, p.divisor));
    for_each_position(p, [&](std::int64_t position) {
      float* to = dx + position * channels + c;
      store_channels(hn::Add(load_channels(to, lanes), share), to, lanes);
    });
  });
}

// Calls f(output position number, its window) for every position of an output plane.
template <class Args, class F>
void for_each_window(const Args& args, const Plane& in, const Plane& out, F&& f) {
  for (std::int64_t h = 0; h < out.h; ++h) {
    const WindowRange rows = window_range(args, 0, h, in.h, out.h);
    for (std::int64_t w = 0; w < out.w; ++w) {
      const WindowRange columns = window_range(args, 1, w, in.w, out.w);
      f(h * out.w + w, PoolPosition{rows, columns, in.w, window_divisor<float>(args.mode, rows, columns)});
    }
  }
}

void max_plane(const PoolPosition& p, const float* x, float* y, std::int32_t* index) {
  float best = -std::numeric_limits<float>::infinity();
  std::int64_t best_at = -1;
  for_each_position(p, [&](std::int64_t position) {
    if (best_at >= 0 && !(x[position] > best) && !(std::isnan(x[position]) && !std::isnan(best))) return;
    best = x[position];
    best_at = position;
  });
  *y = best;
  if (index != nullptr) *index = static_cast<std::int32_t>(best_at);
}

float average_plane(const PoolPosition& p, const float* x) {
  float sum = 0;
  for_each_position(p, [&](std::int64_t position) { sum += x[position]; });
  return sum / p.divisor;
}

std::int32_t* index_at(const PoolArgs& args, std::int64_t at) {
  return args.index ? args.index.as<std::int32_t>() + at : nullptr;
}

void forward_last(const PoolArgs& args, const Plane& in, const Plane& out, std::int64_t n) {
  const float* x = args.x.as<float>() + n * in.size();
  float* y = args.y.as<float>() + n * out.size();
  for_each_window(args, in, out, [&](std::int64_t at, const PoolPosition& p) {
    const std::int64_t to = at * out.c;
    if (args.mode == PoolMode::max) {
      max_channels(p, in.c, x, y + to, index_at(args, n * out.size() + to));
    } else {
      average_channels(p, in.c, x, y + to);
    }
  });
}

void forward_first(const PoolArgs& args, const Plane& in, const Plane& out, std::int64_t plane) {
  const float* x = args.x.as<float>() + plane * in.h * in.w;
  const std::int64_t first = plane * out.h * out.w;
  if (!args.adaptive && args.mode != PoolMode::max)
    return PlanePool<PoolSum>(args, in, out).run(x, args.y.as<float>() + first);
  if (!args.adaptive && !args.index)
    return PlanePool<PoolMax>(args, in, out).run(x, args.y.as<float>() + first);
  for_each_window(args, in, out, [&](std::int64_t at, const PoolPosition& p) {
    float* y = args.y.as<float>() + first + at;
    if (args.mode == PoolMode::max) {
      max_plane(p, x, y, index_at(args, first + at));
    } else {
      *y = average_plane(p, x);
    }
  });
}

void backward_last(const PoolBackwardArgs& args, const Plane& in, const Plane& out, std::int64_t n) {
  const float* dy = args.dy.as<float>() + n * out.size();
  float* dx = args.dx.as<float>() + n * in.size();
  if (args.mode == PoolMode::max) {
    const std::int32_t* index = args.index.as<std::int32_t>() + n * out.size();
    for (std::int64_t i = 0; i < out.size(); ++i) {
      if (index[i] >= 0) dx[index[i] * in.c + i % in.c] += dy[i];  // a dilated window may hold none
    }
    return;
  }
  for_each_window(args, in, out, [&](std::int64_t at, const PoolPosition& p) {
    average_channels_backward(p, in.c, dy + at * out.c, dx);
  });
}

void backward_first(const PoolBackwardArgs& args, const Plane& in, const Plane& out, std::int64_t plane) {
  const float* dy = args.dy.as<float>() + plane * out.h * out.w;
  float* dx = args.dx.as<float>() + plane * in.h * in.w;
  if (args.mode == PoolMode::max) {
    const std::int32_t* index = args.index.as<std::int32_t>() + plane * out.h * out.w;
    for (std::int64_t i = 0; i < out.h * out.w; ++i) {
      if (index[i] >= 0) dx[index[i]] += dy[i];
    }
    return;
  }
  for_each_window(args, in, out, [&](std::int64_t at, const PoolPosition& p) {
    const float share = dy[at] / p.divisor;
    for_each_position(p, [&](std::int64_t position) { dx[position] += share; });
  });
}

void forward_item(const PoolArgs& args, const Plane& in, const Plane& out, std::int64_t item) {
  args.geometry.channels_last ? forward_last(args, in, out, item) : forward_first(args, in, out, item);
}
void backward_item(const PoolBackwardArgs& args, const Plane& in, const Plane& out, std::int64_t item) {
  args.geometry.channels_last ? backward_last(args, in, out, item) : backward_first(args, in, out, item);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ingot::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ingot::kernels::cpu {
namespace {
HWY_EXPORT(forward_item);
HWY_EXPORT(backward_item);

// Samples (channels-last) or planes (channels-first) are independent: body(i) for all of them.
template <class Body>
void for_each_item(const Plane& plane, std::int64_t samples, bool last, Body&& body) {
  constexpr std::int64_t kGrain = 16'384;  // elements: some 10 µs
  const std::int64_t items = last ? samples : samples * plane.c;
  const std::int64_t size = last ? plane.size() : plane.h * plane.w;
  parallel_for(items, kGrain / (size + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i, i * size, size);
  });
}

void forward(const PoolArgs& args, Stream) {
  const bool last = args.geometry.channels_last;
  const Plane in(args.x, last), out(args.y, last);
  for_each_item(in, args.x.dim(0), last, [&](std::int64_t i, std::int64_t, std::int64_t) {
    HWY_DYNAMIC_DISPATCH(forward_item)(args, in, out, i);
  });
}

void backward(const PoolBackwardArgs& args, Stream) {
  const bool last = args.geometry.channels_last;
  const Plane in(args.dx, last), out(args.dy, last);
  for_each_item(in, args.dx.dim(0), last, [&](std::int64_t i, std::int64_t first, std::int64_t size) {
    if (!args.accumulate) std::fill_n(args.dx.as<float>() + first, size, 0.0F);
    HWY_DYNAMIC_DISPATCH(backward_item)(args, in, out, i);
  });
}

}  // namespace

void register_pool_simd() {
  pool.add(DeviceType::cpu, {"simd", ImplKind::simd,
                             [](const PoolArgs& args) { return args.x.dtype == DType::f32; }, forward});
  pool_backward.add(DeviceType::cpu,
                    {"simd", ImplKind::simd,
                     [](const PoolBackwardArgs& args) { return args.dx.dtype == DType::f32; }, backward});
}

}  // namespace ingot::kernels::cpu
#endif  // HWY_ONCE

#include "ingot/kernels/index.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cpu/strided.h"

namespace ingot::kernels::cpu {
namespace {

void find_outside_reference(const FindOutsideArgs& args, Stream) {
  std::int64_t slot = 0, found = -1;
  dispatch_index(args.indices.dtype, "find_outside", [&]<class I>() {
    for_each_run<1>({args.indices}, [&](const auto& at, std::int64_t n, const auto& step) {
      for (std::int64_t i = 0; i < n && found < 0; ++i, ++slot) {
        const auto index = static_cast<std::int64_t>(args.indices.as<I>()[at[0] + i * step[0]]);
        if (index < 0 || index >= args.bound) found = slot;
      }
    });
  });
  args.position.as<std::int64_t>()[0] = found;
}

void embedding_reference(const EmbeddingArgs& args, Stream) {
  const std::int64_t d = args.weight.dim(1);
  dispatch_index(args.ids.dtype, "embedding", [&]<class I>() {
    dispatch_any(args.weight.dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < args.ids.numel(); ++i) {
        const T* row = args.weight.as<T>() + static_cast<std::int64_t>(args.ids.as<I>()[i]) * d;
        std::copy_n(row, d, args.y.as<T>() + i * d);
      }
    });
  });
}

void embedding_backward_reference(const EmbeddingBackwardArgs& args, Stream) {
  const std::int64_t d = args.dweight.dim(1), rows = args.dweight.dim(0), n = args.ids.numel();
  dispatch_index(args.ids.dtype, "embedding_backward", [&]<class I>() {
    dispatch_float(args.dweight.dtype, "embedding_backward", [&]<class T>() {
      std::vector<Accumulator<T>> column(static_cast<std::size_t>(rows));
      for (std::int64_t k = 0; k < d; ++k) {
        std::ranges::fill(column, Accumulator<T>{});
        for (std::int64_t i = 0; i < n; ++i) {
          column[static_cast<std::size_t>(args.ids.as<I>()[i])] += load(args.dy.as<T>() + i * d + k);
        }
        for (std::int64_t r = 0; r < rows; ++r) {
          store(args.dweight.as<T>() + r * d + k, column[static_cast<std::size_t>(r)], args.accumulate);
        }
      }
    });
  });
}

// `view` with `axis` of one element: where the lines along the axis begin.
View lines(View view, int axis) {
  view.shape[static_cast<std::size_t>(axis)] = std::min<std::int64_t>(view.dim(axis), 1);
  return view;
}

// The same for the side that is indexed, on the shape of `index` (empty where that is).
View indexed_lines(View view, const View& index, int axis) {
  view.shape = lines(index, axis).shape;
  return view;
}

template <class T>
void add_to(T& y, const T& x) {
  if constexpr (std::is_same_v<T, bool>) {
    y = y || x;
  } else if constexpr (std::is_integral_v<T>) {
    y = static_cast<T>(y + x);
  } else {
    store(&y, load(&x), true);
  }
}

constexpr std::int64_t kIndexGrain =
    8192;  // elements; the lines along the axis are independent of each other

void gather_reference(const GatherArgs& args, Stream) {
  const std::int64_t n = args.index.dim(args.axis);
  const std::int64_t x_step = args.x.stride(args.axis), i_step = args.index.stride(args.axis),
                     y_step = args.y.stride(args.axis);
  dispatch_index(args.index.dtype, "gather", [&]<class I>() {
    dispatch_any(args.x.dtype, [&]<class T>() {
      parallel_runs<3>({indexed_lines(args.x, args.index, args.axis), lines(args.index, args.axis),
                        lines(args.y, args.axis)},
                       kIndexGrain / (n + 1) + 1, [&](const auto& at, std::int64_t m, const auto& step) {
                         for (std::int64_t line = 0; line < m; ++line) {
                           const T* x = args.x.as<T>() + at[0] + line * step[0];
                           const I* index = args.index.as<I>() + at[1] + line * step[1];
                           T* y = args.y.as<T>() + at[2] + line * step[2];
                           for (std::int64_t i = 0; i < n; ++i) {
                             const T& value = x[static_cast<std::int64_t>(index[i * i_step]) * x_step];
                             if (args.accumulate) {
                               add_to(y[i * y_step], value);
                             } else {
                               y[i * y_step] = value;
                             }
                           }
                         }
                       });
    });
  });
}

// y[index[i]] += x[i] on one line of `targets` elements; half precision is summed in f32.
template <class T, class I>
void scatter_line(const T* x, std::int64_t x_step, const I* index, std::int64_t i_step, std::int64_t n, T* y,
                  std::int64_t y_step, std::int64_t targets) {
  if constexpr (is_half_precision(dtype_of<T>)) {
    std::vector<float> sums(static_cast<std::size_t>(targets));
    for (std::int64_t t = 0; t < targets; ++t) sums[static_cast<std::size_t>(t)] = load(y + t * y_step);
    for (std::int64_t i = 0; i < n; ++i) {
      sums[static_cast<std::size_t>(index[i * i_step])] += load(x + i * x_step);
    }
    for (std::int64_t t = 0; t < targets; ++t) store(y + t * y_step, sums[static_cast<std::size_t>(t)]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      add_to(y[static_cast<std::int64_t>(index[i * i_step]) * y_step], x[i * x_step]);
    }
  }
}

void scatter_add_reference(const ScatterAddArgs& args, Stream) {
  const std::int64_t n = args.index.dim(args.axis);
  const std::int64_t x_step = args.x.stride(args.axis), i_step = args.index.stride(args.axis),
                     y_step = args.y.stride(args.axis);
  dispatch_index(args.index.dtype, "scatter_add", [&]<class I>() {
    dispatch_any(args.x.dtype, [&]<class T>() {
      parallel_runs<3>({lines(args.x, args.axis), lines(args.index, args.axis),
                        indexed_lines(args.y, args.index, args.axis)},
                       kIndexGrain / (n + 1) + 1, [&](const auto& at, std::int64_t m, const auto& step) {
                         for (std::int64_t line = 0; line < m; ++line) {
                           scatter_line(args.x.as<T>() + at[0] + line * step[0], x_step,
                                        args.index.as<I>() + at[1] + line * step[1], i_step, n,
                                        args.y.as<T>() + at[2] + line * step[2], y_step,
                                        args.y.dim(args.axis));
                         }
                       });
    });
  });
}

}  // namespace

void register_index_reference() {
  const auto add = [](auto& kernel, auto run) {
    kernel.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, run});
  };
  add(find_outside, find_outside_reference);
  add(embedding, embedding_reference);
  add(embedding_backward, embedding_backward_reference);
  add(gather, gather_reference);
  add(scatter_add, scatter_add_reference);
}

}  // namespace ingot::kernels::cpu

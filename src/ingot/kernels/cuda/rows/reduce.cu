#include <algorithm>
#include <bit>

#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/reduce.h"
#include "ingot/kernels/reduce_axes.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kGroup = 1024;  // elements that are summed in f32, the contract's limit
constexpr int kThreads = 256;

/// Of two reduced values; an extreme passes a NaN on.
template <ReduceOp op, class V>
__device__ __forceinline__ V merged(V a, V b) {
  if constexpr (op == ReduceOp::sum) return a + b;
  return b != b || (op == ReduceOp::max ? b > a : b < a) ? b : a;
}

/// What a thread has of `count` results, over elements that come one by one.
template <ReduceOp op, int count>
struct Running {
  float group[count];
  double total[count];
  int added = 0;

  __device__ Running() {
    INGOT_UNROLL
    for (int v = 0; v < count; ++v) {
      group[v] = op == ReduceOp::sum ? 0.0F : op == ReduceOp::max ? -INFINITY : INFINITY;
      total[v] = 0;
    }
  }
  __device__ void add(int v, float value) { group[v] = merged<op>(group[v], value); }
  /// Says that `elements` came to each: a full group goes to the total.
  __device__ void close(int elements) {
    if constexpr (op != ReduceOp::sum) return;
    added += elements;
    if (added + elements <= kGroup) return;
    added = 0;
    INGOT_UNROLL
    for (int v = 0; v < count; ++v) {
      total[v] += static_cast<double>(group[v]);
      group[v] = 0;
    }
  }
  __device__ double of(int v) const {
    return op == ReduceOp::sum ? total[v] + static_cast<double>(group[v]) : static_cast<double>(group[v]);
  }
};

/// What all threads of a thread group together have; every one of them calls it.
template <ReduceOp op, int size>
__device__ double of_thread_group(double mine) {
  if constexpr (op == ReduceOp::sum) return ThreadGroup<size>::sum(mine);
  const float sign = op == ReduceOp::max ? 1.0F : -1.0F;
  const bool nan = ThreadGroup<size>::max(mine != mine ? 1.0F : 0.0F) > 0.0F;  // fmaxf drops NaNs
  const float best = sign * ThreadGroup<size>::max(sign * static_cast<float>(mine));
  return nan ? static_cast<double>(NAN) : static_cast<double>(best);
}

struct ReduceKernelArgs {
  const void* x;
  void* y;
  double* partials;           // [parts, results]; null: y is written at once
  Walk<2> kept;               // x and y
  Walk<1> reduced;            // in vectors where they are read so
  std::int64_t length, rest;  // of a part; elements behind the last vector
  int parts, lanes;
  double scale;
  bool accumulate;
};

/// How the elements of a result are walked: `line` in equal steps, else over several axes, which takes
/// divisions. `unroll` vectors of a thread are on their way at a time.
template <bool line_, int vec_>
struct Reading {
  static constexpr bool line = line_;
  static constexpr int vec = vec_, unroll = line ? 4 : 2;

  __device__ static std::int64_t offset(const Walk<1>& walk, std::int64_t i) {
    if constexpr (line) return i * walk.strides[0][0];
    std::int64_t at[1];
    walk.offsets(i, at);
    return at[0];
  }
};

template <class T>
__device__ __forceinline__ void store_result(const ReduceKernelArgs& args, std::int64_t result,
                                             double value) {
  std::int64_t at[2];
  args.kept.offsets(result, at);
  store(static_cast<T*>(args.y) + at[1], static_cast<float>(value * args.scale), args.accumulate);
}

/// The result of a part: y, or where there are several a position among the partial ones.
template <class T>
__device__ __forceinline__ void put(const ReduceKernelArgs& args, std::int64_t part, std::int64_t result,
                                    double value) {
  if (args.partials != nullptr) {
    args.partials[part * args.kept.total + result] = value;
  } else {
    store_result<T>(args, result, value);
  }
}

// A thread group for each part of a result: for reductions whose innermost axis is reduced, so that a thread
// group reads neighbours.
template <class T, ReduceOp op, int size, class R>
__global__ void __launch_bounds__(ThreadGroup<size>::kThreads, 768 / ThreadGroup<size>::kThreads)
    reduce_rows_kernel(const __grid_constant__ ReduceKernelArgs args) {
  constexpr int vec = R::vec, unroll = R::unroll;
  const std::int64_t units = args.kept.total * args.parts;
  for (std::int64_t unit = ThreadGroup<size>::first_row(); unit < units;
       unit += ThreadGroup<size>::row_step()) {
    const std::int64_t row = unit / args.parts, part = unit - row * args.parts;
    std::int64_t at[2];
    args.kept.offsets(row, at);
    const T* x = static_cast<const T*>(args.x) + at[0];
    const std::int64_t begin = part * args.length;
    const std::int64_t end =
        begin + args.length < args.reduced.total ? begin + args.length : args.reduced.total;
    Running<op, 1> mine;
    for (std::int64_t i = begin + ThreadGroup<size>::lane(); i < end; i += size * unroll) {
      Vector<T, vec> read[unroll];
      INGOT_UNROLL
      for (int u = 0; u < unroll; ++u) {
        if (i + u * size >= end) continue;
        read[u] = load_vector<vec>(x + R::offset(args.reduced, i + u * size));
      }
      INGOT_UNROLL
      for (int u = 0; u < unroll; ++u) {
        if (i + u * size >= end) continue;
        INGOT_UNROLL
        for (int v = 0; v < vec; ++v) mine.add(0, to_float(read[u].values[v]));
      }
      mine.close(unroll * vec);
    }
    if (part == args.parts - 1 && ThreadGroup<size>::lane() < args.rest)
      mine.add(0, to_float(x[args.reduced.total * vec + ThreadGroup<size>::lane()]));
    const double result = of_thread_group<op, size>(mine.of(0));
    if (ThreadGroup<size>::lane() == 0) put<T>(args, part, row, result);
  }
}

// Where the innermost axis is kept: `lanes` neighbouring threads have neighbouring vectors of results, and as
// many such groups as a block has share the elements of a part, which is blockIdx.y.
template <class T, ReduceOp op, class R>
__global__ void __launch_bounds__(kThreads, 3)
    reduce_columns_kernel(const __grid_constant__ ReduceKernelArgs args) {
  constexpr int vec = R::vec, unroll = R::unroll;
  INGOT_SHARED_ARRAY(double, shared, kThreads* vec);
  const int thread = static_cast<int>(threadIdx.x), groups = kThreads / args.lanes, width = args.lanes * vec;
  const int group = thread / args.lanes, lane = thread % args.lanes;
  const std::int64_t first = std::int64_t{blockIdx.x} * width, mine = first + lane * vec;
  Running<op, vec> sums;
  if (mine < args.kept.total) {
    std::int64_t at[2];
    args.kept.offsets(mine, at);
    const T* x = static_cast<const T*>(args.x) + at[0];
    const std::int64_t begin = blockIdx.y * args.length;
    const std::int64_t end =
        begin + args.length < args.reduced.total ? begin + args.length : args.reduced.total;
    for (std::int64_t i = begin + group; i < end; i += groups * unroll) {
      Vector<T, vec> read[unroll];
      INGOT_UNROLL
      for (int u = 0; u < unroll; ++u) {
        if (i + u * groups >= end) continue;
        read[u] = load_vector<vec>(x + R::offset(args.reduced, i + u * groups));
      }
      INGOT_UNROLL
      for (int u = 0; u < unroll; ++u) {
        if (i + u * groups >= end) continue;
        INGOT_UNROLL
        for (int v = 0; v < vec; ++v) sums.add(v, to_float(read[u].values[v]));
      }
      sums.close(unroll);
    }
  }
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v) shared[thread * vec + v] = sums.of(v);
  __syncthreads();
  for (int j = thread; j < width && first + j < args.kept.total; j += kThreads) {
    double value = shared[j];
    for (int g = 1; g < groups; ++g) value = merged<op>(value, shared[g * width + j]);
    put<T>(args, blockIdx.y, first + j, value);
  }
}

// The partial results, in a fixed order: `lanes` neighbouring results, whose parts the groups of a block
// share.
template <class T, ReduceOp op>
__global__ void reduce_parts_kernel(const __grid_constant__ ReduceKernelArgs args) {
  INGOT_SHARED_ARRAY(double, shared, kThreads);
  const int thread = static_cast<int>(threadIdx.x), groups = kThreads / args.lanes;
  const std::int64_t result = std::int64_t{blockIdx.x} * args.lanes + thread % args.lanes;
  const bool there = result < args.kept.total;
  int part = thread / args.lanes;
  double value = Running<op, 1>().of(0);
  if (there) {
    for (; part < args.parts; part += groups)
      value = merged<op>(value, args.partials[part * args.kept.total + result]);
  }
  shared[thread] = value;
  for (int half = kThreads / 2; half >= args.lanes; half /= 2) {
    __syncthreads();
    if (thread < half) shared[thread] = merged<op>(shared[thread], shared[thread + half]);
  }
  if (thread < args.lanes && there) store_result<T>(args, result, shared[thread]);
}

/// How many neighbouring threads of a block take neighbouring results: at most `most`, fewer where there are
/// fewer.
int lanes_for(std::int64_t results, std::int64_t most) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(results, 1, most))));
}

/// Whether elements along the innermost axis can be read `vec` at a time, wherever `others` leads.
bool reads_vectors(const View& along, const View& others, int vec) {
  const StridedIterator<1> runs({along});
  if (repeats(runs, 0) || !vectors(runs, std::array{along}, vec)) return false;
  for (int i = 0; i < others.rank; ++i)
    if (others.stride(i) % vec != 0) return false;
  return true;
}

/// Calls run.template operator()<R>() with the reading that applies.
template <class T, class F>
void dispatch_reading(bool in_vectors, const ReduceKernelArgs& args, F&& run) {
  const bool line = args.reduced.rank == 1;
  if (!in_vectors)
    return line ? run.template operator()<Reading<true, 1>>() : run.template operator()<Reading<false, 1>>();
  line ? run.template operator()<Reading<true, kVector<T>>>()
       : run.template operator()<Reading<false, kVector<T>>>();
}

template <class T, ReduceOp op>
void reduce_rows(const LaunchSite& site, const ReduceAxes& axes, ReduceKernelArgs args) {
  const auto run = [&]<class R>() {
    constexpr int vec = R::vec;
    args.reduced = walk_of(StridedIterator<1>({axes.x_reduced}), vec);
    args.rest = axes.x_reduced.numel() - args.reduced.total * vec;
    args.length = (args.reduced.total + args.parts - 1) / args.parts;
    const auto go = [&]<int size>() {
      launch(site, reduce_rows_kernel<T, op, size, R>,
             Size3{grid_of_rows<size>(site.stream.device, args.kept.total * args.parts)},
             Size3{ThreadGroup<size>::kThreads}, 0, args);
    };
    axes.x_reduced.numel() <= 1024 ? go.template operator()<kWarp>() : go.template operator()<kThreads>();
  };
  dispatch_reading<T>(reads_vectors(axes.x_reduced, axes.x_kept, kVector<T>), args, run);
}

template <class T, ReduceOp op>
void reduce_columns(const LaunchSite& site, const ReduceAxes& axes, ReduceKernelArgs args) {
  args.length = (args.reduced.total + args.parts - 1) / args.parts;
  const auto run = [&]<class R>() {
    constexpr int vec = R::vec;
    const std::int64_t vectors = (args.kept.total + vec - 1) / vec;
    // Beside each other 32 threads, or more where there are not as many elements to share.
    args.lanes = std::max(lanes_for(vectors, kWarp), kThreads / lanes_for(args.reduced.total, kThreads));
    const std::int64_t width = std::int64_t{args.lanes} * vec;
    launch(site, reduce_columns_kernel<T, op, R>,
           Size3{static_cast<unsigned>((args.kept.total + width - 1) / width),
                 static_cast<unsigned>(args.parts)},
           Size3{kThreads}, 0, args);
  };
  dispatch_reading<T>(
      args.kept.total % kVector<T> == 0 && reads_vectors(axes.x_kept, axes.x_reduced, kVector<T>), args, run);
}

template <class T, ReduceOp op>
void reduce_as(const LaunchSite& site, const ReduceAxes& axes, ReduceKernelArgs args) {
  axes.inner_is_reduced ? reduce_rows<T, op>(site, axes, args) : reduce_columns<T, op>(site, axes, args);
  if (args.partials == nullptr) return;
  args.lanes = lanes_for(args.kept.total, kWarp);
  launch(site, reduce_parts_kernel<T, op>,
         Size3{static_cast<unsigned>((args.kept.total + args.lanes - 1) / args.lanes)}, Size3{kThreads}, 0,
         args);
}

void run_reduce(const ReduceArgs& args, Stream stream) {
  const ReduceAxes axes(args);
  const int parts = args.partials ? static_cast<int>(axes.parts()) : 1;
  const ReduceKernelArgs kernel_args{.x = args.x.data,
                                     .y = args.y.data,
                                     .partials = parts > 1 ? args.partials.as<double>() : nullptr,
                                     .kept = walk_of(StridedIterator<2>({axes.x_kept, axes.y})),
                                     .reduced = walk_of(StridedIterator<1>({axes.x_reduced})),
                                     .length = 0,
                                     .rest = 0,
                                     .parts = parts,
                                     .lanes = 1,
                                     .scale = args.scale,
                                     .accumulate = args.accumulate};
  if (kernel_args.kept.total == 0) return;
  const LaunchSite site{"reduce", stream, args.x};
  dispatch_device_float(args.x.dtype, "reduce", [&]<class T>() {
    switch (args.op) {
      case ReduceOp::sum:
        return reduce_as<T, ReduceOp::sum>(site, axes, kernel_args);
      case ReduceOp::max:
        return reduce_as<T, ReduceOp::max>(site, axes, kernel_args);
      case ReduceOp::min:
        return reduce_as<T, ReduceOp::min>(site, axes, kernel_args);
    }
  });
}

}  // namespace

void register_reduce() {
  reduce.add(DeviceType::cuda,
             {"cuda", ImplKind::cuda, [](const ReduceArgs& args) { return is_device_float(args.x.dtype); },
              run_reduce});
}

}  // namespace ingot::kernels::cuda

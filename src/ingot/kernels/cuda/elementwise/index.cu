#include <algorithm>

#include "ingot/kernels/cuda/device/indices.h"
#include "ingot/kernels/cuda/device/thread_group.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/index.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;
using Block = ThreadGroup<kBlock>;

// One block: indices are the tokens of a batch. Positions fit a float's 24 bits only up to 16 million, so the
// smallest is found with atomicMin.
template <class I>
__global__ void find_outside_kernel(const I* indices, Walk<1> walk, std::int64_t bound, long long* position) {
  INGOT_SHARED_ARRAY(long long, first, 1);
  if (threadIdx.x == 0) first[0] = walk.total;
  __syncthreads();
  for (std::int64_t i = Block::lane(); i < walk.total; i += kBlock) {
    std::int64_t at[1];
    walk.offsets(i, at);
    const auto index = static_cast<std::int64_t>(indices[at[0]]);
    if (index >= 0 && index < bound) continue;
    atomicMin(first, static_cast<long long>(i));
    break;
  }
  __syncthreads();
  if (threadIdx.x == 0) position[0] = first[0] == walk.total ? -1 : first[0];
}

void run_find_outside(const FindOutsideArgs& args, Stream stream) {
  const Walk<1> walk = walk_of(StridedIterator<1>({args.indices}));
  dispatch_indices(args.indices.dtype, [&]<class I>() {
    launch({"find_outside", stream, args.indices}, find_outside_kernel<I>, Size3{1}, Size3{kBlock}, 0,
           args.indices.as<I>(), walk, args.bound, args.position.as<long long>());
  });
}

template <class Word>
__device__ __forceinline__ Word all_ones() {
  if constexpr (std::is_integral_v<Word>) {
    return static_cast<Word>(~Word{});
  } else {
    return {{~std::uint64_t{0}, ~std::uint64_t{0}}};  // a Vector<std::uint64_t, 2>
  }
}

// Rows as words of `Word`: the largest that divides a row.
template <class Word, class I>
__global__ void embedding_kernel(const Word* weight, const I* ids, Word* y, std::int64_t rows, std::int64_t n,
                                 std::int64_t d) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n * d; i += step) {
    const std::int64_t row = i / d;
    const auto id = static_cast<std::int64_t>(ids[row]);
    y[i] = is_row(id, rows) ? weight[id * d + (i - row * d)] : all_ones<Word>();
  }
}

void run_embedding(const EmbeddingArgs& args, Stream stream) {
  const std::int64_t n = args.ids.numel();
  const auto row_bytes = args.weight.dim(1) * static_cast<std::int64_t>(byte_size(args.weight.dtype));
  if (n == 0 || row_bytes == 0) return;
  const auto address =
      reinterpret_cast<std::uintptr_t>(args.weight.data) | reinterpret_cast<std::uintptr_t>(args.y.data);
  dispatch_indices(args.ids.dtype, [&]<class I>() {
    const auto run = [&]<class Word>() {
      const std::int64_t words = row_bytes / static_cast<std::int64_t>(sizeof(Word));
      launch({"embedding", stream, args.weight}, embedding_kernel<Word, I>,
             Size3{grid_for(stream.device, n * words, kBlock)}, Size3{kBlock}, 0, args.weight.as<Word>(),
             args.ids.as<I>(), args.y.as<Word>(), args.weight.dim(0), n, words);
    };
    const std::uint64_t both = address | static_cast<std::uint64_t>(row_bytes);
    if (both % 16 == 0) return run.template operator()<Vector<std::uint64_t, 2>>();
    if (both % 4 == 0) return run.template operator()<std::uint32_t>();
    run.template operator()<std::uint8_t>();
  });
}

/// Lines along the indexed axis, which are independent of each other: x, index, y.
struct LineArgs {
  const void *x, *index;
  void* y;
  Walk<3> lines;
  std::int64_t n, x_step, index_step, y_step;
  bool accumulate;
};

template <class T, class I>
__global__ void gather_kernel(const __grid_constant__ LineArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x, total = args.lines.total * args.n;
  for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < total; k += step) {
    const std::int64_t line = k / args.n, i = k - line * args.n;
    std::int64_t at[3];
    args.lines.offsets(line, at);
    const auto index =
        static_cast<std::int64_t>(static_cast<const I*>(args.index)[at[1] + i * args.index_step]);
    const Value<T> value = to_value(static_cast<const T*>(args.x)[at[0] + index * args.x_step]);
    T* y = static_cast<T*>(args.y) + at[2] + i * args.y_step;
    *y = from_value<T>(args.accumulate ? static_cast<Value<T>>(to_value(*y) + value) : value);
  }
}

// A thread for a line: it adds in the order of i, whatever the index says.
template <class T, class I>
__global__ void scatter_add_kernel(const __grid_constant__ LineArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t line = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; line < args.lines.total;
       line += step) {
    std::int64_t at[3];
    args.lines.offsets(line, at);
    for (std::int64_t i = 0; i < args.n; ++i) {
      const auto index =
          static_cast<std::int64_t>(static_cast<const I*>(args.index)[at[1] + i * args.index_step]);
      T* y = static_cast<T*>(args.y) + at[2] + index * args.y_step;
      const Value<T> value = to_value(static_cast<const T*>(args.x)[at[0] + i * args.x_step]);
      *y = from_value<T>(static_cast<Value<T>>(to_value(*y) + value));
    }
  }
}

// `view` as its lines along the axis: on the shape of `index`, with one element on the axis.
View lines_of(View view, const View& index, int axis) {
  view.shape = index.shape;
  view.shape[static_cast<std::size_t>(axis)] = std::min<std::int64_t>(index.dim(axis), 1);
  return view;
}

LineArgs line_args(const View& x, const View& index, const View& y, int axis, bool accumulate) {
  return {.x = x.data,
          .index = index.data,
          .y = y.data,
          .lines = walk_of(StridedIterator<3>(
              {lines_of(x, index, axis), lines_of(index, index, axis), lines_of(y, index, axis)})),
          .n = index.dim(axis),
          .x_step = x.stride(axis),
          .index_step = index.stride(axis),
          .y_step = y.stride(axis),
          .accumulate = accumulate};
}

template <class F>
void dispatch_elements(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i64:
      return f.template operator()<std::int64_t>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    default:
      dispatch_device_float(dtype, "gather", f);
  }
}
bool is_element(DType dtype) { return is_device_float(dtype) || dtype == DType::i64 || dtype == DType::i32; }

void run_gather(const GatherArgs& args, Stream stream) {
  const LineArgs kernel_args = line_args(args.x, args.index, args.y, args.axis, args.accumulate);
  const std::int64_t total = kernel_args.lines.total * kernel_args.n;
  if (total == 0) return;
  dispatch_indices(args.index.dtype, [&]<class I>() {
    dispatch_elements(args.x.dtype, [&]<class T>() {
      launch({"gather", stream, args.x}, gather_kernel<T, I>, Size3{grid_for(stream.device, total, kBlock)},
             Size3{kBlock}, 0, kernel_args);
    });
  });
}

void run_scatter_add(const ScatterAddArgs& args, Stream stream) {
  const LineArgs kernel_args = line_args(args.x, args.index, args.y, args.axis, true);
  if (kernel_args.lines.total * kernel_args.n == 0) return;
  dispatch_indices(args.index.dtype, [&]<class I>() {
    dispatch_elements(args.x.dtype, [&]<class T>() {
      launch({"scatter_add", stream, args.x}, scatter_add_kernel<T, I>,
             Size3{grid_for(stream.device, kernel_args.lines.total, kBlock)}, Size3{kBlock}, 0, kernel_args);
    });
  });
}

}  // namespace

void register_index() {
  find_outside.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_find_outside});
  embedding.add(DeviceType::cuda, {"cuda", ImplKind::cuda, nullptr, run_embedding});
  gather.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                [](const GatherArgs& args) { return is_element(args.x.dtype); }, run_gather});
  scatter_add.add(DeviceType::cuda,
                  {"cuda", ImplKind::cuda,
                   [](const ScatterAddArgs& args) { return is_element(args.x.dtype); }, run_scatter_add});
}

}  // namespace ingot::kernels::cuda

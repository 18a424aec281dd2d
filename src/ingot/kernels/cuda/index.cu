#include <algorithm>

#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/team.h"
#include "ingot/kernels/index.h"

namespace ingot::kernels::cuda {
namespace {

constexpr int kBlock = 256;
using Block = Team<kBlock>;

/// Calls f.template operator()<I>() with the type of indices.
template <class F>
void dispatch_indices(DType dtype, F&& f) {
  if (dtype == DType::i64) return f.template operator()<std::int64_t>();
  f.template operator()<std::int32_t>();
}

// One block: indices are the tokens of a batch. Places fit a float's 24 bits only up to 16 million, so the
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
  const Walk<1> walk = walk_of(Runs<1>({args.indices}));
  dispatch_indices(args.indices.dtype, [&]<class I>() {
    launch({"find_outside", stream, args.indices}, find_outside_kernel<I>, Size3{1}, Size3{kBlock}, 0,
           args.indices.as<I>(), walk, args.bound, args.position.as<long long>());
  });
}

__device__ __forceinline__ bool is_row(std::int64_t id, std::int64_t rows) { return id >= 0 && id < rows; }

template <class Word>
__device__ __forceinline__ Word all_ones() {
  if constexpr (std::is_integral_v<Word>) {
    return static_cast<Word>(~Word{});
  } else {
    return {{~std::uint64_t{0}, ~std::uint64_t{0}}};  // a Pack<std::uint64_t, 2>
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
    if (both % 16 == 0) return run.template operator()<Pack<std::uint64_t, 2>>();
    if (both % 4 == 0) return run.template operator()<std::uint32_t>();
    run.template operator()<std::uint8_t>();
  });
}

/// Whether `id` stands among the first `place` ids; the nearest are looked at first, because what is frequent
/// is near. Every thread of a block calls it.
template <class I>
__device__ bool stands_before(const I* ids, std::int64_t place, I id) {
  constexpr int kLooks = 8;  // ids of a thread between two questions to the others
  for (std::int64_t end = place; end > 0; end -= kBlock * kLooks) {
    float found = 0;
    INGOT_UNROLL
    for (int k = 0; k < kLooks; ++k) {
      const std::int64_t j = end - 1 - (k * kBlock + Block::lane());
      if (j >= 0 && ids[j] == id) found = 1;
    }
    if (Block::sum(found) > 0.0F) return true;
  }
  return false;
}

// A block for each place in ids, and blockIdx.y for columns. Only the first of those with the same id works:
// it adds the rows of dy in their order, so that the sum does not depend on chance; every other one leaves.
// The places of the same id are listed first, so that several of their rows can be on their way.
template <class T, class I, int vec>
__global__ void __launch_bounds__(kBlock)
    embedding_backward_kernel(const T* dy, const I* ids, T* dweight, std::int64_t rows, std::int64_t n,
                              std::int64_t d, bool accumulate) {
  constexpr int kWarps = kBlock / kWarp, kRows = 8;
  INGOT_SHARED_ARRAY(int, same, kBlock);
  INGOT_SHARED_ARRAY(int, counts, kWarps);
  const std::int64_t place = blockIdx.x;
  const I id = ids[place];
  if (!is_row(static_cast<std::int64_t>(id), rows) || stands_before(ids, place, id)) return;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kBlock + Block::lane()) * vec;
  const int lane = Block::lane() % kWarp, warp = Block::lane() / kWarp;
  float sum[vec] = {};
  for (std::int64_t j0 = place; j0 < n; j0 += kBlock) {
    const std::int64_t j = j0 + Block::lane();
    const bool mine = j < n && ids[j] == id;
    const unsigned lanes = __ballot_sync(kAllLanes, mine ? 1 : 0);
    __syncthreads();  // the list before has been read
    if (lane == 0) counts[warp] = __popc(lanes);
    __syncthreads();
    int before = 0, count = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp) before = count;
      count += counts[w];
    }
    if (mine) same[before + __popc(lanes & ((1U << lane) - 1))] = Block::lane();
    __syncthreads();
    if (column >= d) continue;
    for (int k0 = 0; k0 < count; k0 += kRows) {
      Pack<T, vec> read[kRows];
      INGOT_UNROLL
      for (int k = 0; k < kRows; ++k)
        if (k0 + k < count) read[k] = load_pack<vec>(dy + (j0 + same[k0 + k]) * d + column);
      INGOT_UNROLL
      for (int k = 0; k < kRows; ++k) {
        if (k0 + k >= count) continue;
        INGOT_UNROLL
        for (int v = 0; v < vec; ++v) sum[v] += to_float(read[k].values[v]);
      }
    }
  }
  if (column >= d) return;
  T* to = dweight + static_cast<std::int64_t>(id) * d + column;
  Pack<T, vec> pack = {};
  if (accumulate) pack = load_pack<vec>(to);
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v) store(&pack.values[v], sum[v], accumulate);
  store_pack(to, pack);
}

void run_embedding_backward(const EmbeddingBackwardArgs& args, Stream stream) {
  const std::int64_t n = args.ids.numel(), d = args.dweight.dim(1);
  if (!args.accumulate) {
    const auto bytes = static_cast<std::size_t>(args.dweight.numel()) * byte_size(args.dweight.dtype);
    backend(stream.device).fill_bytes(args.dweight.data, 0, bytes, stream);
  }
  if (n == 0 || d == 0) return;
  const auto address =
      reinterpret_cast<std::uintptr_t>(args.dy.data) | reinterpret_cast<std::uintptr_t>(args.dweight.data);
  dispatch_indices(args.ids.dtype, [&]<class I>() {
    dispatch_device_float(args.dweight.dtype, "embedding_backward", [&]<class T>() {
      const auto run = [&]<int vec>() {
        const std::int64_t columns = (d + kBlock * vec - 1) / (kBlock * vec);
        launch({"embedding_backward", stream, args.dweight}, embedding_backward_kernel<T, I, vec>,
               Size3{static_cast<unsigned>(n), static_cast<unsigned>(columns)}, Size3{kBlock}, 0,
               args.dy.as<T>(), args.ids.as<I>(), args.dweight.as<T>(), args.dweight.dim(0), n, d,
               args.accumulate);
      };
      if (address % 16 == 0 && d % kPack<T> == 0) return run.template operator()<kPack<T>>();
      run.template operator()<1>();
    });
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
          .lines = walk_of(
              Runs<3>({lines_of(x, index, axis), lines_of(index, index, axis), lines_of(y, index, axis)})),
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
  embedding_backward.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                            [](const EmbeddingBackwardArgs& args) {
                                              return is_device_float(args.dweight.dtype);
                                            },
                                            run_embedding_backward});
  gather.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                [](const GatherArgs& args) { return is_element(args.x.dtype); }, run_gather});
  scatter_add.add(DeviceType::cuda,
                  {"cuda", ImplKind::cuda,
                   [](const ScatterAddArgs& args) { return is_element(args.x.dtype); }, run_scatter_add});
}

}  // namespace ingot::kernels::cuda

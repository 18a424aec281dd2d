#include <bit>

#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/device/indices.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/index.h"

namespace ingot::kernels::cuda {
namespace {

// The positions of ids are sorted by id, those of one id in their order; then a block adds the rows of each
// id. So sums have one order, and the work grows with the number of ids, not with its square.
//
// The sort goes by digits of eight bits, the lowest first. For each digit a kernel counts how often its
// values stand in each tile of positions, and a second one puts the positions of a tile where those counts
// say.

constexpr int kBlock = 256, kWarps = kBlock / kWarp;
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
static_assert(kDigits == kBlock);  // a thread for each value of a digit
static_assert(kEmbeddingTile % kBlock == 0 && kEmbeddingDigits == kDigits);

template <class I>
struct Sort {
  const I* ids;
  const int* from;  // positions in the order so far; null: 0, 1, ...
  int* to;
  int* counts;  // [tiles, kDigits]
  int n, tiles;
  std::int64_t rows;  // ids outside of them count as `rows`, and come last
  int shift;          // of the digit

  __device__ int position(int i) const { return from == nullptr ? i : from[i]; }
  __device__ int digit(int position) const {
    const auto id = static_cast<std::int64_t>(ids[position]);
    return static_cast<int>((is_row(id, rows) ? id : rows) >> shift) & (kDigits - 1);
  }
};

template <class I>
__global__ void __launch_bounds__(kBlock) count_digits_kernel(const __grid_constant__ Sort<I> sort) {
  INGOT_SHARED_ARRAY(int, counts, kDigits);
  const int thread = static_cast<int>(threadIdx.x), tile = static_cast<int>(blockIdx.x);
  counts[thread] = 0;
  __syncthreads();
  for (int i = thread; i < kEmbeddingTile; i += kBlock) {
    const int at = tile * kEmbeddingTile + i;
    if (at < sort.n) atomicAdd(&counts[sort.digit(sort.position(at))], 1);
  }
  __syncthreads();
  sort.counts[tile * kDigits + thread] = counts[thread];
}

/// How many digits of all tiles are less than `thread`, with those of earlier tiles that are equal: where the
/// first of this tile goes. Every thread of the block calls it.
template <class I>
__device__ int first_position(const Sort<I>& sort, int tile, int thread) {
  INGOT_SHARED_ARRAY(int, totals, kDigits);
  int before = 0, total = 0;
  for (int other = 0; other < sort.tiles; ++other) {
    const int count = sort.counts[other * kDigits + thread];
    if (other < tile) before += count;
    total += count;
  }
  int below = total;  // sums over more and more of the values below
  for (int apart = 1; apart < kDigits; apart *= 2) {
    totals[thread] = below;
    __syncthreads();
    if (thread >= apart) below += totals[thread - apart];
    __syncthreads();
  }
  return below - total + before;
}

/// The lanes of this warp whose digit is this lane's.
__device__ __forceinline__ unsigned lanes_alike(int digit, bool counts) {
  unsigned alike = __ballot_sync(kAllLanes, counts ? 1 : 0);
  INGOT_UNROLL
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool set = (digit >> bit & 1) != 0;
    const unsigned lanes = __ballot_sync(kAllLanes, set ? 1 : 0);
    alike &= set ? lanes : ~lanes;
  }
  return alike;
}

// 256 positions at a time, each warp 32 of them: a position comes behind those of its digit that were before
// it.
template <class I>
__global__ void __launch_bounds__(kBlock) position_digits_kernel(const __grid_constant__ Sort<I> sort) {
  INGOT_SHARED_ARRAY(int, starts, kWarps* kDigits);
  const int thread = static_cast<int>(threadIdx.x), tile = static_cast<int>(blockIdx.x);
  const int lane = thread % kWarp, warp = thread / kWarp;
  int next = first_position(sort, tile, thread);
  for (int i = 0; i < kEmbeddingTile; i += kBlock) {
    const int at = tile * kEmbeddingTile + i + thread;
    const bool there = at < sort.n;
    const int position = there ? sort.position(at) : 0, digit = there ? sort.digit(position) : 0;
    for (int w = 0; w < kWarps; ++w) starts[w * kDigits + thread] = 0;
    __syncthreads();
    const unsigned alike = lanes_alike(digit, there);
    const int rank = __popc(alike & ((1U << lane) - 1));
    if (there && rank == 0) starts[warp * kDigits + digit] = __popc(alike);
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) {
      const int count = starts[w * kDigits + thread];
      starts[w * kDigits + thread] = next;
      next += count;
    }
    __syncthreads();
    if (there) sort.to[starts[warp * kDigits + digit] + rank] = position;
    __syncthreads();  // the starts have been read
  }
}

/// The positions of ids, sorted; in one of two parts of the scratch.
template <class I>
const int* sort_positions(const EmbeddingBackwardArgs& args, Stream stream) {
  const auto n = static_cast<int>(args.ids.numel());
  const int tiles = (n + kEmbeddingTile - 1) / kEmbeddingTile;
  int* const scratch = args.scratch.as<int>();
  Sort<I> sort{.ids = args.ids.as<I>(),
               .from = nullptr,
               .to = scratch,
               .counts = scratch + 2 * std::int64_t{n},
               .n = n,
               .tiles = tiles,
               .rows = args.dweight.dim(0),
               .shift = 0};
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(sort.rows)));
  for (; sort.shift < bits; sort.shift += kDigitBits) {
    const Size3 grid{static_cast<unsigned>(tiles)};
    launch({"embedding_backward", stream, args.ids}, count_digits_kernel<I>, grid, Size3{kBlock}, 0, sort);
    launch({"embedding_backward", stream, args.ids}, position_digits_kernel<I>, grid, Size3{kBlock}, 0, sort);
    sort.from = sort.to;
    sort.to = sort.to == scratch ? scratch + n : scratch;
  }
  return sort.from;
}

/// Positions that come one after another, of the same id, from `begin` on: up to kBlock of them are listed in
/// `list`. Returns how many. Every thread of the block calls it.
template <class I>
__device__ int list_same(const int* positions, const I* ids, std::int64_t n, std::int64_t begin, I id,
                         int* list) {
  INGOT_SHARED_ARRAY(int, counts, kWarps);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t at = begin + thread;
  const int position = at < n ? positions[at] : 0;
  const unsigned lanes = __ballot_sync(kAllLanes, at < n && ids[position] == id ? 1 : 0);
  __syncthreads();  // the list before has been read
  list[thread] = position;
  if (thread % kWarp == 0) counts[thread / kWarp] = __popc(lanes);
  __syncthreads();
  int count = 0;
  for (int w = 0; w < kWarps; ++w) count += counts[w];
  return count;
}

// A block for each sorted position, and blockIdx.y for columns: the first of an id adds its rows, the others
// leave.
template <class T, class I, int vec>
__global__ void __launch_bounds__(kBlock)
    add_rows_kernel(const T* dy, const I* ids, const int* positions, T* dweight, std::int64_t rows,
                    std::int64_t n, std::int64_t d, bool accumulate) {
  constexpr int kRows = 8;  // on their way at a time
  INGOT_SHARED_ARRAY(int, list, kBlock);
  const std::int64_t first = blockIdx.x;
  const I id = ids[positions[first]];
  if (!is_row(static_cast<std::int64_t>(id), rows) || (first > 0 && ids[positions[first - 1]] == id)) return;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kBlock + threadIdx.x) * vec;
  float sum[vec] = {};
  int count = kBlock;
  for (std::int64_t begin = first; count == kBlock; begin += kBlock) {
    count = list_same(positions, ids, n, begin, id, list);
    if (column >= d) continue;
    for (int k0 = 0; k0 < count; k0 += kRows) {
      Vector<T, vec> read[kRows];
      INGOT_UNROLL
      for (int k = 0; k < kRows; ++k)
        if (k0 + k < count) read[k] = load_vector<vec>(dy + list[k0 + k] * d + column);
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
  Vector<T, vec> vector = {};
  if (accumulate) vector = load_vector<vec>(to);
  INGOT_UNROLL
  for (int v = 0; v < vec; ++v) store(&vector.values[v], sum[v], accumulate);
  store_vector(to, vector);
}

void run_embedding_backward(const EmbeddingBackwardArgs& args, Stream stream) {
  const std::int64_t n = args.ids.numel(), d = args.dweight.dim(1);
  if (!args.accumulate) {
    const auto bytes = static_cast<std::size_t>(args.dweight.numel()) * byte_size(args.dweight.dtype);
    backend(stream.device).fill_bytes(args.dweight.data, 0, bytes, stream);
  }
  if (n == 0 || args.dweight.numel() == 0) return;
  const auto address =
      reinterpret_cast<std::uintptr_t>(args.dy.data) | reinterpret_cast<std::uintptr_t>(args.dweight.data);
  dispatch_indices(args.ids.dtype, [&]<class I>() {
    const int* positions = sort_positions<I>(args, stream);
    dispatch_device_float(args.dweight.dtype, "embedding_backward", [&]<class T>() {
      const auto run = [&]<int vec>() {
        const std::int64_t columns = (d + kBlock * vec - 1) / (kBlock * vec);
        launch({"embedding_backward", stream, args.dweight}, add_rows_kernel<T, I, vec>,
               Size3{static_cast<unsigned>(n), static_cast<unsigned>(columns)}, Size3{kBlock}, 0,
               args.dy.as<T>(), args.ids.as<I>(), positions, args.dweight.as<T>(), args.dweight.dim(0), n, d,
               args.accumulate);
      };
      if (address % 16 == 0 && d % kVector<T> == 0) return run.template operator()<kVector<T>>();
      run.template operator()<1>();
    });
  });
}

}  // namespace

void register_embedding_backward() {
  embedding_backward.add(DeviceType::cuda, {"cuda", ImplKind::cuda,
                                            [](const EmbeddingBackwardArgs& args) {
                                              return is_device_float(args.dweight.dtype);
                                            },
                                            run_embedding_backward});
}

}  // namespace ingot::kernels::cuda

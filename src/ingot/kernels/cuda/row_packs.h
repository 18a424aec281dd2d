#pragma once

#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "ingot/core/view.h"
#include "ingot/kernels/cuda/global_store.h"
#include "ingot/kernels/cuda/thread_group.h"

// Rows that a thread group reads in packs. All packs of a batch are asked for before the first is used: a
// kernel that waits for memory wants many loads under way, and a store between two loads, which might go to
// the same address, would hold the second one up. So fetch all, compute, write all; outputs may then be
// inputs too.
namespace ingot::kernels::cuda {

/// How a thread group of `size` threads goes through a row of T: in batches of `packs` packs of `vec`
/// elements per thread. A `held` row is one batch, which stays in registers however often the kernel goes
/// through it; others are read again. Rows that are not `whole` packs end with a part of one, element by
/// element.
template <class T_, int size, int packs, int vec, bool held, bool whole = true>
struct RowForm {
  using T = T_;
  using ThreadGroup = cuda::ThreadGroup<size>;
  using Index = std::conditional_t<held, int, std::int64_t>;
  static constexpr int kPacks = packs, kVec = vec;
  static constexpr int kPackStep = size * vec,
                       kStep = kPackStep * packs;  ///< elements to the next pack, batch
  static constexpr bool kHeld = held, kWhole = whole;
  /// How many blocks a multiprocessor should hold at least: 1024 threads, which leaves 64 registers to each,
  /// or 640 with 96 for kernels that have two rows at hand.
  static constexpr int kBlocks = 1024 / ThreadGroup::kThreads;
  static constexpr int kBlocksOfTwo = 640 / ThreadGroup::kThreads;

  __device__ static int batches(std::int64_t n) {
    return held ? 1 : static_cast<int>((n + kStep - 1) / kStep);
  }
  /// The first element of a pack of this thread. Neighbours have neighbouring packs.
  __device__ static Index position(int batch, int pack) {
    return static_cast<Index>(ThreadGroup::lane()) * vec +
           (static_cast<Index>(batch) * packs + pack) * kPackStep;
  }
  /// Whether an element of a pack is one of a row of `n`.
  __device__ static bool is_in(Index n, int batch, int pack, int element) {
    return position(batch, pack) + (whole ? 0 : element) < n;
  }
  /// f(pack, element of it) for each element of a batch.
  template <class F>
  __device__ __forceinline__ static void each(F&& f) {
    INGOT_UNROLL
    for (int p = 0; p < packs; ++p) {
      INGOT_UNROLL
      for (int v = 0; v < vec; ++v) f(p, v);
    }
  }
};

/// `count` neighbours as registers hold them. Those of 16 bits lie two in a register until they are used: the
/// elements of a row as floats would take twice the registers, and half the rows would be under way.
template <class T, int count>
struct Elements {
  Pack<T, count> pack;
  __device__ __forceinline__ void load(const T* from) { pack = load_pack<count>(from); }
  __device__ __forceinline__ void store(T* to) const { store_global(to, pack); }
  __device__ __forceinline__ float get(int i) const { return to_float(pack.values[i]); }
  /// The greatest element; what is no number does not count.
  __device__ __forceinline__ float top() const {
    float top = get(0);
    INGOT_UNROLL
    for (int i = 1; i < count; ++i) top = fmaxf(top, get(i));
    return top;
  }
  template <class F>
  __device__ __forceinline__ void fill(F&& f) {
    INGOT_UNROLL
    for (int i = 0; i < count; ++i) pack.values[i] = from_float<T>(f(i));
  }
  __device__ __forceinline__ void keep() {}
};

template <class T, int count>
requires(sizeof(T) == 2 && count % 2 == 0) struct Elements<T, count> {
  Pack<std::uint32_t, count / 2> pack;
  __device__ __forceinline__ void load(const T* from) {
    pack = bits_as<Pack<std::uint32_t, count / 2>>(load_pack<count>(from));
  }
  __device__ __forceinline__ void store(T* to) const { store_global(to, bits_as<Pack<T, count>>(pack)); }
  __device__ __forceinline__ float get(int i) const {
    const std::uint32_t two = pack.values[i / 2];
    if constexpr (std::is_same_v<T, bfloat_t>) {  // the upper half of a float
      return bits_as<float>(i % 2 == 0 ? two << 16 : two & 0xffff0000U);
    } else {
#if defined(__CUDACC__)
      const auto halves = bits_as<__half2>(two);
      return i % 2 == 0 ? __low2float(halves) : __high2float(halves);
#else
      return to_float(bits_as<T>(static_cast<std::uint16_t>(i % 2 == 0 ? two : two >> 16)));
#endif
    }
  }
  __device__ __forceinline__ float top() const {
#if defined(__CUDACC__)  // two at a time
    using Two = std::conditional_t<std::is_same_v<T, bfloat_t>, __nv_bfloat162, __half2>;
    Two top = bits_as<Two>(pack.values[0]);
    INGOT_UNROLL
    for (int i = 1; i < count / 2; ++i) top = __hmax2(top, bits_as<Two>(pack.values[i]));
    return fmaxf(to_float(top.x), to_float(top.y));
#else
    float top = get(0);
    for (int i = 1; i < count; ++i) top = fmaxf(top, get(i));
    return top;
#endif
  }
  template <class F>
  __device__ __forceinline__ void fill(F&& f) {
    INGOT_UNROLL
    for (int i = 0; i < count; i += 2) {
      const float low = f(i), high = f(i + 1);
      pack.values[i / 2] = two_of(low, high);
    }
  }
  /// Keeps the compiler from carrying the elements on as floats that it has converted already.
  __device__ __forceinline__ void keep() {
#if defined(__CUDACC__)
    INGOT_UNROLL
    for (int i = 0; i < count / 2; ++i) asm volatile("" : "+r"(pack.values[i]));
#endif
  }

 private:
  __device__ __forceinline__ static std::uint32_t two_of(float low, float high) {
#if defined(__CUDACC__)
    if constexpr (std::is_same_v<T, bfloat_t>) {
      return bits_as<std::uint32_t>(__floats2bfloat162_rn(low, high));
    } else {
      return bits_as<std::uint32_t>(__floats2half2_rn(low, high));
    }
#else
    return bits_as<std::uint16_t>(from_float<T>(low)) |
           static_cast<std::uint32_t>(bits_as<std::uint16_t>(from_float<T>(high))) << 16;
#endif
  }
};

/// A thread's part of a batch.
template <class Form>
struct RowPacks {
  using T = typename Form::T;
  using Index = typename Form::Index;
  /// How far beyond its first element a pack has to lie within the row to be read at once.
  static constexpr int kLast = Form::kWhole ? 0 : Form::kVec - 1;
  Elements<T, Form::kVec> packs[Form::kPacks];

  /// Reads from a row of `n` elements; beyond it there is `absent`.
  __device__ __forceinline__ void fetch(const T* row, Index n, int batch, float absent = 0.0F) {
    INGOT_UNROLL
    for (int p = 0; p < Form::kPacks; ++p) {
      packs[p].fill([&](int) { return absent; });
      const Index at = Form::position(batch, p);
      if (at + kLast < n) packs[p].load(row + at);
    }
    if constexpr (!Form::kWhole) {
      INGOT_UNROLL
      for (int p = 0; p < Form::kPacks; ++p) {
        const Index at = Form::position(batch, p);
        if (at < n && at + kLast >= n)
          packs[p].fill([&](int v) { return at + v < n ? to_float(row[at + v]) : absent; });
      }
    }
  }
  /// fetch() and write() of a batch that lies within the row.
  __device__ __forceinline__ void load(const T* row, int batch) {
    INGOT_UNROLL
    for (int p = 0; p < Form::kPacks; ++p) packs[p].load(row + Form::position(batch, p));
  }
  __device__ __forceinline__ void store(T* row, int batch) const {
    INGOT_UNROLL
    for (int p = 0; p < Form::kPacks; ++p) packs[p].store(row + Form::position(batch, p));
  }
  /// For another pass: reads what is not held.
  __device__ __forceinline__ void fetch_again(const T* row, Index n, int batch, float absent = 0.0F) {
    if constexpr (Form::kHeld) {
      keep();
    } else {
      fetch(row, n, batch, absent);
    }
  }
  /// Keeps the compiler from carrying the elements on as floats that it has converted already.
  __device__ __forceinline__ void keep() {
    INGOT_UNROLL
    for (int p = 0; p < Form::kPacks; ++p) packs[p].keep();
  }
  __device__ __forceinline__ void write(T* row, Index n, int batch) const {
    INGOT_UNROLL
    for (int p = 0; p < Form::kPacks; ++p) {
      const Index at = Form::position(batch, p);
      if (at + kLast < n) {
        packs[p].store(row + at);
      } else if (!Form::kWhole && at < n) {
        INGOT_UNROLL
        for (int v = 0; v < Form::kVec; ++v)
          if (at + v < n) row[at + v] = from_float<T>(get(p, v));
      }
    }
  }
  __device__ __forceinline__ float get(int p, int v) const { return packs[p].get(v); }
  /// The greatest element; what is no number does not count.
  __device__ __forceinline__ float top() const {
    float top = packs[0].top();
    INGOT_UNROLL
    for (int p = 1; p < Form::kPacks; ++p) top = fmaxf(top, packs[p].top());
    return top;
  }
  /// Makes each element f(pack, element of it), which may use what is there.
  template <class F>
  __device__ __forceinline__ void fill(F&& f) {
    INGOT_UNROLL
    for (int p = 0; p < Form::kPacks; ++p) packs[p].fill([&](int v) { return f(p, v); });
  }
};

/// Combines what the threads of a thread group have with one barrier each: two calls one after the other use
/// two positions of shared memory.
template <class ThreadGroup>
class ThreadGroupExchange {
 public:
  /// `combine.template operator()<lanes>(values)` makes `values` the same in a group of so many lanes. It
  /// must not care which of two operands comes first.
  template <int count, class Combine>
  __device__ __forceinline__ void all(float (&values)[count], const Combine& combine) {
    constexpr int kLanes = ThreadGroup::kThreads / ThreadGroup::kThreadGroups;
    combine.template operator()<(kLanes < kWarp ? kLanes : kWarp)>(values);
    if constexpr (ThreadGroup::kWarps > 1) {
      INGOT_SHARED_ARRAY(float, parts, 2 * count * ThreadGroup::kWarps);
      float* const mine = parts + (turn_ ? count * ThreadGroup::kWarps : 0);
      turn_ = !turn_;
      const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
      INGOT_UNROLL
      for (int k = 0; k < count; ++k)
        if (lane == 0) mine[k * ThreadGroup::kWarps + warp] = values[k];
      __syncthreads();
      INGOT_UNROLL
      for (int k = 0; k < count; ++k) values[k] = mine[k * ThreadGroup::kWarps + lane % ThreadGroup::kWarps];
      combine.template operator()<ThreadGroup::kWarps>(values);
    }
  }
  template <int count>
  __device__ __forceinline__ void sum(float (&values)[count]) {
    all(values, [&]<int lanes>(float(&sums)[count]) {
      INGOT_UNROLL
      for (int k = 0; k < count; ++k) sums[k] = lanes_sum<lanes>(sums[k]);
    });
  }
  __device__ __forceinline__ float sum(float value) {
    float values[1] = {value};
    sum(values);
    return values[0];
  }

 private:
  bool turn_ = false;
};

/// How wide the rows of `x` are, of which there are x.rows().
inline std::int64_t row_width(const View& x) { return x.rank == 0 ? 1 : x.dim(-1); }

/// Whether the rows of all `views` begin where packs of 16 bytes may. Absent views do not matter, nor does
/// the distance of rows where there is one.
inline bool rows_are_aligned(std::initializer_list<View> views) {
  for (const View& view : views) {
    if (!view) continue;
    const auto bytes = static_cast<std::int64_t>(byte_size(view.dtype));
    if (reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0) return false;
    if (view.rank > 1 && view.rows() > 1 && view.stride(-2) * bytes % 16 != 0) return false;
  }
  return true;
}
/// Whether, besides, rows of `width` are whole packs.
inline bool rows_in_packs(std::int64_t width, std::initializer_list<View> views) {
  for (const View& view : views)
    if (view && width * static_cast<std::int64_t>(byte_size(view.dtype)) % 16 != 0) return false;
  return rows_are_aligned(views);
}

/// Calls f.template operator()<Form>() with the form for rows of `width` T: up to 2048 packs of 16 bytes are
/// held in registers.
template <class T, class F>
void dispatch_row_form(std::int64_t width, bool in_packs, F&& f) {
  constexpr int kVec = kPack<T>;
  if (!in_packs) {
    if (width <= 1024) return f.template operator()<RowForm<T, kWarp, 8, 1, false>>();
    return f.template operator()<RowForm<T, 512, 8, 1, false>>();
  }
  const std::int64_t packs = width / kVec;
  if (packs <= 32) return f.template operator()<RowForm<T, 8, 4, kVec, true>>();
  if (packs <= 128) return f.template operator()<RowForm<T, 32, 4, kVec, true>>();
  if (packs <= 512) return f.template operator()<RowForm<T, 128, 4, kVec, true>>();
  if (packs <= 1024) return f.template operator()<RowForm<T, 256, 4, kVec, true>>();
  if (packs <= 2048) return f.template operator()<RowForm<T, 512, 4, kVec, true>>();
  f.template operator()<RowForm<T, 512, 4, kVec, false>>();
}

/// The same for kernels that pass over their rows once and need nothing of a whole row, so hold none.
template <class T, class F>
void dispatch_passing_form(std::int64_t width, bool in_packs, F&& f) {
  constexpr int kVec = kPack<T>;
  if (!in_packs) {
    if (width <= 1024) return f.template operator()<RowForm<T, kWarp, 8, 1, false>>();
    return f.template operator()<RowForm<T, 512, 8, 1, false>>();
  }
  if (width <= 512 * kVec) return f.template operator()<RowForm<T, kWarp, 4, kVec, false>>();
  f.template operator()<RowForm<T, 512, 4, kVec, false>>();
}

/// The grid and block of a kernel whose thread groups take `rows` rows in turn.
template <class Form>
Size3 row_grid(Device device, std::int64_t rows) {
  return {grid_for(device, rows, Form::ThreadGroup::kThreadGroups, 32)};
}
template <class Form>
inline constexpr Size3 kRowBlock{Form::ThreadGroup::kThreads};

}  // namespace ingot::kernels::cuda

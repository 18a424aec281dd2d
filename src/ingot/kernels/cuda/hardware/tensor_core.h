#pragma once

#include "ingot/kernels/cuda/device/device_code.h"
#include "ingot/kernels/cuda/device/fragments.h"

namespace ingot::kernels::cuda {

/// sums += left · right
template <class T>
__device__ __forceinline__ void multiply_add(SumFragment& sums, const LeftFragment& left,
                                             const RightFragment& right) {
  float(&c)[4] = sums.values;
  const unsigned(&a)[4] = left.values;
  const unsigned(&b)[2] = right.values;
  if constexpr (std::is_same_v<T, bfloat_t>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

/// sums += left · right in int8, for a depth of 16, four values to a register: the left's positions 4t to 4t
/// + 3 in row g and in row g + 8, the right's in column g. The sums lie as in SumFragment.
__device__ __forceinline__ void multiply_add_int8(int (&sums)[4], unsigned left, unsigned left8,
                                                  unsigned right) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(left), "r"(left8), "r"(right));
}

/// Four matrices of 8 x 8 from shared memory: lane 8m + r says where row r of matrix m begins, a multiple of
/// 16 bytes; matrix m's row g, columns 2t and 2t + 1 come to m[lane].
template <class T>
__device__ __forceinline__ void load_matrices(unsigned (&m)[4], const T* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
/// The same of the transposed matrices: rows 2t and 2t + 1 of column g.
template <class T>
__device__ __forceinline__ void load_transposed_matrices(unsigned (&m)[4], const T* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

/// Starts to copy 16 bytes of device memory to shared memory, or zeros where `inside` does not hold, of which
/// nothing is read; both addresses are multiples of 16 bytes.
template <class T>
__device__ __forceinline__ void copy_async(T* to, const T* from, bool inside) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(from), "r"(inside ? 16 : 0)
               : "memory");
}
/// The same of 4 bytes.
template <class T>
__device__ __forceinline__ void copy_word_async(T* to, const T* from, bool inside) {
  static_assert(sizeof(T) == 4);
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :
               : "r"(address), "l"(from), "r"(inside ? 4 : 0)
               : "memory");
}
/// Ends a group of copies; they arrive together.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `left` of this thread's groups are under way. What other threads copied is there after
/// the next barrier.
template <int left>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(left) : "memory");
}

}  // namespace ingot::kernels::cuda

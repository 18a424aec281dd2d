#include "ingot/kernels/instruction_set.h"

#include <algorithm>
#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace ingot::kernels {
namespace {

std::atomic<InstructionSet>& limit_value() {
  static std::atomic<InstructionSet> value{default_instruction_set()};
  return value;
}

#if defined(__x86_64__)
// Int8 matmuls of AMX's tiles: the processor has them, and Linux lets this process use their registers (it
// asks once, since they make a thread's state 8 KiB larger).
bool can_use_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25;
  if ((edx & kTile) == 0 || (edx & kInt8) == 0) return false;
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

InstructionSet detect() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return InstructionSet::baseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (!avx512) return InstructionSet::avx2;
  if (!__builtin_cpu_supports("avx512vnni")) return InstructionSet::avx512;
  if (!__builtin_cpu_supports("avx512bf16")) return InstructionSet::avx512_vnni;
  return can_use_amx() ? InstructionSet::amx : InstructionSet::avx512_bf16;
}
#endif

}  // namespace

InstructionSet best_instruction_set() {
#if defined(__x86_64__)
  static const InstructionSet best = detect();
  return best;
#else
  return InstructionSet::baseline;
#endif
}

InstructionSet default_instruction_set() {
  return std::min(best_instruction_set(), InstructionSet::avx512_bf16);
}

InstructionSet instruction_set_limit() { return limit_value().load(std::memory_order_relaxed); }
void limit_instruction_set(InstructionSet limit) { limit_value() = limit; }

}  // namespace ingot::kernels

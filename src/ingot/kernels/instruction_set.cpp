#include "ingot/kernels/instruction_set.h"

#include <atomic>

namespace ingot::kernels {
namespace {

std::atomic<InstructionSet>& limit_value() {
  static std::atomic<InstructionSet> value{best_instruction_set()};
  return value;
}

}  // namespace

InstructionSet best_instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return InstructionSet::baseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (!avx512) return InstructionSet::avx2;
  return __builtin_cpu_supports("avx512vnni") ? InstructionSet::avx512_vnni : InstructionSet::avx512;
#else
  return InstructionSet::baseline;
#endif
}

InstructionSet instruction_set_limit() { return limit_value().load(std::memory_order_relaxed); }
void limit_instruction_set(InstructionSet limit) { limit_value() = limit; }

}  // namespace ingot::kernels

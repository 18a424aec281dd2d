#include <atomic>
#include <cstdint>

#include <hwy/targets.h>

// The three functions that Highway's dispatch calls, with the meaning that hwy/targets.h gives them. Debian's
// libhwy has them too, but times the processor's clock whenever a process that links it starts, which takes 4
// ms.
namespace hwy {
namespace {

/// Which of the targets of kernels/cpu, infer and mahjong this processor and its operating system can run.
std::int64_t detect() {
  std::int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  // Every processor that has these has F16C and LZCNT, which clang cannot ask for.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (avx2) targets |= HWY_AVX2;
  if (avx2 && avx512) targets |= HWY_AVX3;
#endif
  return targets;
}

std::atomic<std::int64_t>& disabled() {
  static std::atomic<std::int64_t> targets{0};
  return targets;
}

}  // namespace

std::int64_t SupportedTargets() {
  static const std::int64_t kFound = detect();
  const std::int64_t allowed = kFound & ~disabled().load();
  return allowed != 0 ? allowed : HWY_STATIC_TARGET;
}

void DisableTargets(std::int64_t targets) {
  disabled() = targets;
  GetChosenTarget().DeInit();
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy

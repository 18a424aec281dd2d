#include "ingot/runtime/compute_backend.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/suggest.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/cpu/instruction_set.h"

namespace ingot {
namespace {

using kernels::InstructionSet;

struct CpuChoice {
  const char* name;
  InstructionSet set;
  const char* detail;
};
constexpr std::array kCpuChoices{
    CpuChoice{"cpu", InstructionSet::baseline, "any processor, no vector instructions beyond SSE2"},
    CpuChoice{"cpu-avx2", InstructionSet::avx2, "AVX2 and FMA"},
    CpuChoice{"cpu-avx512", InstructionSet::avx512, "AVX-512 F, BW, DQ, VL"},
    CpuChoice{"cpu-vnni", InstructionSet::avx512_vnni, "AVX-512 with int8 dot products"},
    CpuChoice{"cpu-bf16", InstructionSet::avx512_bf16, "the same and dot products of bf16"},
    CpuChoice{
        "cpu-amx", InstructionSet::amx,
        "the same and AMX tiles of int8, only where asked for: they have not run on such a processor yet"}};

std::atomic<bool> cuda_chosen{false};

bool has_cuda() { return BackendRegistry::instance().has(DeviceType::cuda); }

std::string best_cpu() {
  return kCpuChoices[static_cast<std::size_t>(kernels::default_instruction_set())].name;
}

}  // namespace

std::vector<ComputeBackendChoice> compute_backends() {
  std::vector<ComputeBackendChoice> choices;
  for (const CpuChoice& choice : kCpuChoices) {
    const bool available = choice.set <= kernels::best_instruction_set();
    choices.push_back({choice.name, available,
                       std::string(choice.detail) + (available ? "" : ": this processor lacks them")});
  }
  choices.push_back({"cuda", has_cuda(),
                     has_cuda() ? "NVIDIA GPU" : BackendRegistry::instance().why_missing(DeviceType::cuda)});
  return choices;
}

void set_compute_backend(std::string_view name) {
  if (name == "auto") return set_compute_backend(auto_detect_backend());
  std::vector<std::string> names{"auto"};
  for (const ComputeBackendChoice& choice : compute_backends()) {
    names.push_back(choice.name);
    INGOT_CHECK(
        choice.name != name || choice.available,
        DeviceNotAvailable(choice.name, choice.detail + "; the best here is " + auto_detect_backend()));
  }
  INGOT_CHECK(std::ranges::find(names, name) != names.end(),
              InvalidConfig("backend", fmt::format("'{}' is none of {}{}", name, fmt::join(names, ", "),
                                                   did_you_mean(name, names))));
  cuda_chosen = name == "cuda";
  for (const CpuChoice& choice : kCpuChoices) {
    if (choice.name != name || kernels::cpu::use_instruction_set(choice.set)) continue;
    log(LogLevel::warn, "ingot::runtime",
        fmt::format("oneDNN keeps the instructions that it started with; INGOT_BACKEND={} limits it too",
                    name));
  }
}

std::string compute_backend() {
  if (cuda_chosen) return "cuda";
  return kCpuChoices[static_cast<std::size_t>(kernels::instruction_set_limit())].name;
}

std::string auto_detect_backend() { return has_cuda() ? "cuda" : best_cpu(); }

void enable_best_cpu() { set_compute_backend(best_cpu()); }

}  // namespace ingot

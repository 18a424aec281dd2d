#include "ingot/core/backend.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/core/cpu_backend.h"

namespace ingot {
namespace {

// What `backend` lacks of `wanted`, in words; empty when it has everything.
std::string missing(ComputeBackend& backend, const BackendRequirements& wanted) {
  const BackendCapabilities& has = backend.capabilities();
  std::string lacks;
  const auto add = [&lacks](const std::string& what) { lacks += (lacks.empty() ? "" : ", ") + what; };
  for (const DType dtype : wanted.dtypes) {
    if (std::ranges::find(has.dtypes, dtype) == has.dtypes.end()) add(std::string(name(dtype)));
  }
  for (const std::string& feature : wanted.features) {
    if (std::ranges::find(has.features, feature) == has.features.end()) add(feature);
  }
  if (wanted.graph_capture && !has.graph_capture) add("graph capture");
  if (wanted.runtime_kernels && backend.kernel_executor() == nullptr) add("kernels compiled at run time");
  if (wanted.memory > 0 && backend.memory_info().free < wanted.memory) {
    add(std::to_string(wanted.memory) + " bytes of free memory");
  }
  if (backend.status().state != BackendState::ready) add("a working state: " + backend.status().detail);
  return lacks;
}

struct Suitability {
  std::string lacks;                  // in words; empty when it has everything
  std::pair<bool, std::size_t> rank;  // accelerators first, then by free memory
};

Suitability suitability(ComputeBackend& backend, const BackendRequirements& wanted) {
  try {
    if (std::string lacks = missing(backend, wanted); !lacks.empty()) return {std::move(lacks), {}};
    return {"", {!backend.device().is_cpu(), backend.memory_info().free}};
  } catch (const Error& error) {  // a card that is lost, or that another process has to itself
    return {std::string("a working state: ") + error.what(), {}};
  }
}

}  // namespace

BackendRegistry::BackendRegistry() { add(make_cpu_backend()); }

std::unique_ptr<CapturedWork> ComputeBackend::capture(FunctionRef<void()>) {
  throw NotImplemented("capturing work on " + to_string(device()));
}

BackendRegistry& BackendRegistry::instance() {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction we could choose.
  static auto* registry = new BackendRegistry;
  return *registry;
}

void BackendRegistry::add(std::unique_ptr<ComputeBackend> backend) {
  backends_.push_back(std::move(backend));
}

ComputeBackend* BackendRegistry::find(Device device) const {
  for (const auto& backend : backends_) {
    if (backend->device() == device) return backend.get();
  }
  return nullptr;
}

ComputeBackend& BackendRegistry::get(Device device) const {
  if (ComputeBackend* found = find(device)) return *found;
  std::string names;
  for (const auto& backend : backends_) names += (names.empty() ? "" : ", ") + to_string(backend->device());
  const std::string why = device.is_cuda() && !missing_cuda_.empty() ? "; " + missing_cuda_ : "";
  throw DeviceNotAvailable(to_string(device), "this process has " + names + why);
}

bool BackendRegistry::has_cuda() const {
  return std::ranges::any_of(backends_, [](const auto& backend) { return backend->device().is_cuda(); });
}

std::vector<ComputeBackend*> BackendRegistry::all() const {
  std::vector<ComputeBackend*> list;
  for (const auto& backend : backends_) list.push_back(backend.get());
  return list;
}

ComputeBackend& BackendRegistry::find_best(const BackendRequirements& requirements) const {
  ComputeBackend* best = nullptr;
  std::pair<bool, std::size_t> best_rank;
  std::string reasons;
  for (const auto& candidate : backends_) {
    const Suitability found = suitability(*candidate, requirements);
    if (!found.lacks.empty()) {
      reasons += (reasons.empty() ? "" : "; ") + to_string(candidate->device()) + " lacks " + found.lacks;
    } else if (best == nullptr || found.rank > best_rank) {
      best = candidate.get();
      best_rank = found.rank;
    }
  }
  INGOT_CHECK(best != nullptr, DeviceNotAvailable("any", reasons));
  return *best;
}

ComputeBackend& backend(Device device) { return BackendRegistry::instance().get(device); }

}  // namespace ingot

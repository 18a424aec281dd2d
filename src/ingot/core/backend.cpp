#include "ingot/core/backend.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/core/cpu_backend.h"
#include "ingot/core/meta_backend.h"

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
  if (wanted.int8_matmul && !has.int8_matmul) add("matmuls of int8");
  for (const std::string& kind : wanted.attention) {
    if (std::ranges::find(has.attention, kind) == has.attention.end()) add("attention with " + kind);
  }
  if (wanted.memory > 0 && backend.memory_info().free < wanted.memory) {
    add(std::to_string(wanted.memory) + " bytes of free memory");
  }
  if (const BackendStatus status = backend.status(); status.state != BackendState::ready)
    add("a working state: " + (status.last_error.empty() ? "it is shut down" : status.last_error));
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
  } catch (const Error& error) {  // a GPU that is lost, or that another process has to itself
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
  INGOT_CHECK(find(backend->device()) == nullptr,
              InvalidConfig("device", to_string(backend->device()) + " is there already"));
  backends_.push_back(std::move(backend));
}

ComputeBackend* BackendRegistry::find(Device device) const {
  if (device == kMeta) return meta_backend();
  for (const auto& backend : backends_) {
    if (backend->device() == device) return backend.get();
  }
  return nullptr;
}

ComputeBackend& BackendRegistry::get(Device device) const {
  if (ComputeBackend* found = find(device)) return *found;
  std::string names;
  for (const auto& backend : backends_) names += (names.empty() ? "" : ", ") + to_string(backend->device());
  const std::string why = why_missing(device.type);
  throw DeviceNotAvailable(to_string(device), "this process has " + names + (why.empty() ? "" : "; " + why));
}

std::string BackendRegistry::why_missing(DeviceType type) const {
  const auto found = missing_.find(type);
  return found == missing_.end() ? std::string() : found->second;
}

bool BackendRegistry::has(DeviceType type) const {
  return std::ranges::any_of(backends_, [&](const auto& backend) { return backend->device().type == type; });
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

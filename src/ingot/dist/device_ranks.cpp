#include "ingot/dist/device_ranks.h"

#include <array>
#include <cstdint>
#include <fstream>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/dist/mpi_communicator.h"
#include "ingot/dist/nccl.h"
#include "ingot/dist/nccl_communicator.h"

namespace ingot::dist {
namespace {

// Two machines may have one name ("localhost"), but never start at once with the same number.
std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return host_name() + " " + id;
}

using Field = std::string DeviceOfRank::*;
constexpr std::array<Field, 9> kFields{
    &DeviceOfRank::host,    &DeviceOfRank::machine, &DeviceOfRank::device,
    &DeviceOfRank::name,    &DeviceOfRank::memory,  &DeviceOfRank::kind,
    &DeviceOfRank::address, &DeviceOfRank::nccl,    &DeviceOfRank::problem};

DeviceOfRank describe(Device device) {
  const BackendCapabilities& has = backend(device).capabilities();
  DeviceOfRank own{.host = host_name(),
                   .machine = machine_id(),
                   .device = to_string(device),
                   .name = has.device_name,
                   .memory = human_bytes(has.total_memory)};
  if (has.host_memory) return own;
  own.kind = has.device_name;
  own.address = has.pci_address;
  own.problem = device.type == DeviceType::cuda ? nccl().problem : "NCCL is for NVIDIA's GPUs";
  if (own.problem.empty()) own.nccl = nccl().version_text();
  return own;
}

void check_kinds(const std::vector<DeviceOfRank>& ranks) {
  const DeviceOfRank& first = ranks.front();
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const auto tell = [](const DeviceOfRank& rank) {
      return fmt::format("{} ({})", rank.device, rank.kind.empty() ? "no GPU" : rank.kind);
    };
    INGOT_CHECK(ranks[i].kind == first.kind,
                InvalidConfig("device",
                              fmt::format("rank 0 on {} has {}, rank {} on {} has {}: ranks of one run need "
                                          "GPUs of one kind; leave the other machine out, or name the GPUs "
                                          "with CUDA_VISIBLE_DEVICES",
                                          first.host, tell(first), i, ranks[i].host, tell(ranks[i]))));
  }
}

void check_addresses(const std::vector<DeviceOfRank>& ranks) {
  std::map<std::pair<std::string, std::string>, std::size_t> taken;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].address.empty()) continue;
    const auto [first, is_new] = taken.emplace(std::pair{ranks[i].machine, ranks[i].address}, i);
    INGOT_CHECK(is_new, InvalidConfig(
                            "device",
                            fmt::format("ranks {} and {} on {} both have the GPU at {} ({}); start "
                                        "one rank a GPU, and leave device at cuda: each rank of a "
                                        "machine then takes the GPU of its number",
                                        first->second, i, ranks[i].host, ranks[i].address, ranks[i].device)));
  }
}

NcclId share_id(Communicator& communicator) {
  NcclId id;
  std::string problem;
  if (communicator.is_first()) {
    if (const int result = nccl().get_unique_id(&id); result != Nccl::success)
      problem = fmt::format("{}: {}", nccl().get_error_string(result), nccl().get_last_error(nullptr));
  }
  problem = communicator.all_gather(problem)[0];
  INGOT_CHECK(problem.empty(),
              CommunicationError(fmt::format("NCCL cannot start on rank 0: {}; NCCL_DEBUG=INFO tells more, "
                                             "INGOT_NCCL=0 goes over the hosts' memory",
                                             problem)));
  communicator.broadcast(std::as_writable_bytes(std::span(id.internal)), 0);
  return id;
}

}  // namespace

Device choose_rank_device(const Communicator& communicator, const std::string& setting) {
  const Device device = choose_device(setting);
  const bool shared = backend(device).capabilities().host_memory;  // the CPU
  if (communicator.local_size() == 1 || shared || setting.find(':') != std::string::npos) return device;
  Device own = device;
  own.index = static_cast<std::int8_t>(communicator.local_rank());
  INGOT_CHECK(BackendRegistry::instance().find(own) != nullptr,
              InvalidConfig("device",
                            fmt::format("{} ranks were started on this machine, which has no {}; start one a "
                                        "GPU, or set device: cpu",
                                        communicator.local_size(), to_string(own))));
  return own;
}

std::vector<DeviceOfRank> devices_of_ranks(Communicator& communicator, Device device) {
  const DeviceOfRank own = describe(device);
  std::string packed;
  for (const Field field : kFields) packed += own.*field + '\0';
  std::vector<DeviceOfRank> ranks;
  ranks.reserve(static_cast<std::size_t>(communicator.size()));
  for (const std::string& told : communicator.all_gather(packed)) {
    DeviceOfRank& rank = ranks.emplace_back();
    std::size_t at = 0;
    for (const Field field : kFields) {
      const std::size_t end = told.find('\0', at);
      rank.*field = told.substr(at, end - at);
      at = end + 1;
    }
  }
  return ranks;
}

DeviceEngine choose_engine(const std::vector<DeviceOfRank>& ranks) {
  check_kinds(ranks);
  if (ranks.front().kind.empty()) return {};
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].nccl.empty())
      return {false, fmt::format("rank {} on {}: {}", i, ranks[i].host, ranks[i].problem)};
  check_addresses(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    INGOT_CHECK(ranks[i].nccl == ranks[0].nccl,
                InvalidConfig("INGOT_NCCL",
                              fmt::format("rank 0 on {} has NCCL {}, rank {} on {} has {}; install "
                                          "one version everywhere",
                                          ranks[0].host, ranks[0].nccl, i, ranks[i].host, ranks[i].nccl)));
  return {true, {}};
}

void connect_devices(Communicator& communicator, Device device) {
  if (communicator.size() == 1) return;
  const DeviceEngine engine = choose_engine(devices_of_ranks(communicator, device));
  if (communicator.any(communicator.of(device) == nullptr) && engine.nccl)
    communicator.set_beside(nccl_communicator(communicator, device, share_id(communicator)));
  if (!communicator.is_first() || engine.reason.empty()) return;
  log(LogLevel::warn, "ingot::dist",
      fmt::format(
          "the GPUs' tensors go between ranks over the hosts' memory, which is slow, not with NCCL: {}",
          engine.reason));
}

}  // namespace ingot::dist

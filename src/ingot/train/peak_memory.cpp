#include "ingot/train/peak_memory.h"

#include <array>
#include <span>
#include <vector>

#include <sys/resource.h>

#include "ingot/core/backend.h"

namespace ingot {
namespace {

using Peaks = std::array<double, 2>;  // of tensors, of the process

Peaks own_peaks(Device device) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {static_cast<double>(backend(device).memory().peak()), static_cast<double>(usage.ru_maxrss) * 1024};
}

MemoryRecord::Most most(std::span<const Peaks> ranks, std::size_t of) {
  MemoryRecord::Most most;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank][of] > most.bytes) most = {ranks[rank][of], static_cast<int>(rank)};
  return most;
}

}  // namespace

MemoryRecord peak_memory(Device device, dist::Communicator* ranks) {
  std::vector<Peaks> all{own_peaks(device)};
  if (ranks != nullptr) {
    const Peaks own = all.front();
    all.resize(static_cast<std::size_t>(ranks->size()));
    ranks->all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  }
  return {.ranks = static_cast<int>(all.size()), .tensors = most(all, 0), .resident = most(all, 1)};
}

}  // namespace ingot

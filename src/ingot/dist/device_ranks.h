#pragma once

#include <string>
#include <vector>

#include "ingot/core/device.h"
#include "ingot/dist/communicator.h"

namespace ingot::dist {

/// The device that a setting names ("auto", "cuda", "cpu", "cuda:1"), for this rank: of several on a machine
/// each takes the GPU of its number, unless the setting has one. InvalidConfig where there is none.
Device choose_rank_device(const Communicator& communicator, const std::string& setting);

/// What a rank says of its device.
struct DeviceOfRank {
  std::string host;
  std::string machine;  ///< tells machines apart, whatever they are called
  std::string device;   ///< "cuda:0"
  std::string name;     ///< "NVIDIA H100 80GB HBM3", or the processor's
  std::string memory;   ///< "80 GB"
  std::string kind;     ///< the GPU's name; empty for the CPU
  std::string address;  ///< on the PCI bus; empty where unknown
  std::string nccl;     ///< "2.20.3"; empty where it cannot be used
  std::string problem;  ///< why it cannot
};

/// Of every rank, in their order. All ranks call it.
std::vector<DeviceOfRank> devices_of_ranks(Communicator& communicator, Device device);

/// Whether NCCL can move the devices' memory; if not, `reason` says what keeps it from that, and is empty
/// where nobody has a GPU.
struct DeviceEngine {
  bool nccl = false;
  std::string reason;
};
/// InvalidConfig where two ranks have one GPU, where GPUs are of several kinds, or where only some have one.
DeviceEngine choose_engine(const std::vector<DeviceOfRank>& ranks);

/// Puts a communicator for the memory of the ranks' devices beside `communicator`: NCCL, where each has a GPU
/// and all have the library; where they have not, the first says in the log that memory goes over the hosts'.
/// All ranks call it; again for the same device does nothing. InvalidConfig as of choose_engine().
void connect_devices(Communicator& communicator, Device device);

}  // namespace ingot::dist

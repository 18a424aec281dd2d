#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/nn/parameter.h"

namespace ingot {

/// Where something lies while nothing computes with it: on its device, in the host's memory, or in a file.
enum class Offload : std::uint8_t { none, cpu, disk };
/// "none", "cpu", "disk"
std::string_view name(Offload offload);
/// Of these words, and "nvme" for disk, "true" for cpu and "false" for none. InvalidConfig names `key`.
Offload parse_offload(const std::string& word, const char* key = "offload_optimizer");

struct OffloadConfig {
  Offload to = Offload::none;
  std::string directory;  ///< of disk; made where it is missing
  /// How much of it is on the device at once, twice: while one part is stepped, the next one comes and the
  /// last one goes. 0: offload_window() of all.
  std::size_t window_bytes = 0;
  bool gradients = false;  ///< they are in the host's memory, too, and come with the state
};

/// A sixteenth of the state: its copies hide behind each other. 64 KiB to 64 MiB, so that they are not many,
/// and take little memory.
std::size_t offload_window(std::size_t state_bytes);

/// What a step changes of one parameter: all of it, or a range of its elements as one axis.
struct OptimizerPiece {
  const Parameter* parameter = nullptr;
  double lr = 1, weight_decay = 0;  ///< a multiplier; the value where decay applies, else 0
  std::int64_t steps = 0;           ///< with this one
  Tensor value, grad;
  Tensor master;                ///< undefined where there is none
  std::vector<Tensor> buffers;  ///< in the optimizer's order
  bool divisible = false;       ///< each element is stepped by itself; 8-bit moments by blocks

  /// Calls f(tensor, whether it goes back) with what is not on the value's device.
  void for_each_moved(FunctionRef<void(Tensor&, bool)> f);
  std::size_t moved_bytes() const;
};

/// Memory of offloaded state, and its way to the device and back. The device does the arithmetic wherever the
/// state lies, so that offloading changes no bit.
class OffloadedState {
 public:
  explicit OffloadedState(OffloadConfig config);
  ~OffloadedState();
  OffloadedState(const OffloadedState&) = delete;
  OffloadedState& operator=(const OffloadedState&) = delete;

  const OffloadConfig& config() const { return config_; }
  /// Zeros for the state of a parameter on `device`: of the host, page-locked or in a file, or on the device.
  Tensor zeros(const Shape& shape, DType dtype, Device device) const;
  /// Calls step(some of the pieces) until all were stepped, with their state on the parameters' device. Puts
  /// the work and the copies into streams; the host waits for nothing.
  void run(std::vector<OptimizerPiece> pieces, FunctionRef<void(std::span<const OptimizerPiece>)> step);
  /// Waits until the state of the last step has come back.
  void wait() const;

 private:
  struct Transfer;
  Transfer& transfer(Device device);

  OffloadConfig config_;
  std::unique_ptr<Transfer> transfer_;  // of the first device that it was asked for
};

}  // namespace ingot

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/core/device.h"
#include "ingot/core/device_clock.h"
#include "ingot/core/dtype.h"
#include "ingot/core/memory.h"
#include "ingot/core/stream.h"
#include "ingot/core/view.h"

namespace ingot {

/// What a device can do. Sizes in bytes; 0 where unknown.
struct BackendCapabilities {
  std::string device_name;            ///< "Intel(R) Xeon(R) Processor", "NVIDIA H200"
  std::vector<std::string> features;  ///< instruction sets or architecture: "avx2", "avx512_vnni", "sm_90"
  std::vector<DType> dtypes;          ///< dtypes that kernels compute in
  std::size_t total_memory = 0;
  int compute_units = 0;    ///< processors or multiprocessors
  std::string pci_address;  ///< "0000:0f:00.0": what the system calls a GPU; empty for the CPU
  /// FLOP/s of dense matmuls, by the maker's data sheet; no entry where that is not known.
  std::map<DType, double> peak_flops;
  bool streams = false;  ///< work runs beside the caller
  bool graph_capture = false;
  /// One matmul with concatenated weights is faster than one for each (query, key and value; gate and up).
  bool fuses_projections = false;
  /// The host reads and writes its memory by pointer, and waits for nothing.
  bool host_memory = false;
  /// Matmuls whose sizes it divides are faster; others are worth padding (the vocabulary of a loss).
  int matmul_alignment = 1;
  /// Matmuls of int8 that add up in int32 have instructions of their own, which quantized weights use.
  bool int8_matmul = false;
  /// What attention does besides causal and full: "window", "documents", "softcap", "int8_cache" (of rows
  /// with scales), "cache_entries" (the caches of many sequences in one launch, by addresses on the device).
  std::vector<std::string> attention;
  std::size_t memory_alignment = 64;  ///< of what allocate() gives
  int max_rank = kMaxViewRank;        ///< of the tensors that its kernels take
};

/// What a caller needs of a device; BackendRegistry::find_best picks among those that have all of it.
struct BackendRequirements {
  std::vector<DType> dtypes;
  std::vector<std::string> features;
  std::size_t memory = 0;  ///< bytes that must be free
  bool graph_capture = false;
  bool runtime_kernels = false;  ///< a kernel_executor()
  bool int8_matmul = false;
  std::vector<std::string> attention;  ///< words of BackendCapabilities::attention
};

/// A device that failed is lost to this process: whatever is asked of it fails again.
enum class BackendState : std::uint8_t { ready, failed, shut_down };

struct BackendStatus {
  BackendState state = BackendState::ready;
  /// What the device said when something failed last, also where it went on working; empty where nothing did.
  std::string last_error;
};

class KernelExecutor;  // core/kernel_executor.h

struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};

/// A point in a stream's work. Created, recorded and waited for through the backend.
struct Event {
  Device device{};
  void* native = nullptr;
};

/// Work that was recorded once and runs again as a whole, at a fraction of the cost of asking for it piece by
/// piece. It keeps the memory that the work had in passing. What the work reads and writes besides must stay
/// alive, where it was: inputs, parameters, and results, which belong to whoever holds their tensors.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  /// Puts the work into `stream`. Not while it still runs on another stream.
  virtual void launch(Stream stream) = 0;
};

/// The services of one device: memory, copies, order. Computation is not here but in kernels
/// (kernels/kernel.h). Functions that take a stream return at once and work in its order; the CPU has done
/// the work on return.
class ComputeBackend {
 public:
  virtual ~ComputeBackend() = default;

  virtual Device device() const = 0;
  virtual std::string_view name() const = 0;
  virtual std::string version() const = 0;
  virtual const BackendCapabilities& capabilities() const = 0;
  /// Asks the device whether it still works; never throws.
  virtual BackendStatus status() const = 0;
  /// Releases cached memory and handles. Only status() may be called afterwards.
  virtual void shutdown() = 0;

  /// Memory aligned to 64 bytes at least; throws OutOfMemory. `bytes` must be given back to deallocate.
  virtual void* allocate(std::size_t bytes, MemoryTag tag) = 0;
  virtual void deallocate(void* data, std::size_t bytes, MemoryTag tag) noexcept = 0;
  /// Memory of the host that copies of this device reach without a detour, and so without holding up the
  /// caller (core/transfer.h). Costly to make: keep it. Throws OutOfMemory.
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void deallocate_host(void* data, std::size_t bytes) noexcept = 0;
  /// Gives cached, unused memory back to the system.
  virtual void trim() = 0;
  virtual MemoryInfo memory_info() const = 0;
  virtual MemoryTracker& memory() = 0;

  /// Copies between any two addresses that this backend's device can reach (its own memory and the host's).
  virtual void copy(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, Stream stream) = 0;

  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  /// Blocks until all work of the stream is done; reports the errors of that work.
  virtual void synchronize(Stream stream) = 0;
  virtual Event create_event() = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  /// Work put into `stream` from now on waits for `event`.
  virtual void wait(Stream stream, Event event) = 0;
  /// Blocks until the work before the event is done, and not what came after it; reports errors as
  /// synchronize(Stream) does.
  virtual void synchronize(Event event) = 0;

  /// Whether the work before the event is done, without waiting where the device can tell.
  virtual bool is_done(Event event) {
    synchronize(event);
    return true;
  }

  /// Null where work is done when a call returns, so that the host's clock tells how long it took.
  virtual std::unique_ptr<DeviceClock> make_clock() { return nullptr; }

  /// Records what `work` puts into the calling thread's current stream; it does not run yet. An exception of
  /// `work`, or a wait for the device in it (reading a number back), ends the recording and is thrown on.
  /// NotImplemented where capabilities().graph_capture does not hold.
  virtual std::unique_ptr<CapturedWork> capture(FunctionRef<void()> work);

  /// Null where kernels cannot be compiled at run time. Looks for the compiler when it is first asked.
  virtual KernelExecutor* kernel_executor() { return nullptr; }
};

/// Every device of this process. The CPU is always there; others are added by initialize()
/// (runtime/initialize.h). Besides, find() and get() know kMeta while a dry run lives.
class BackendRegistry {
 public:
  static BackendRegistry& instance();

  /// Before other threads ask for devices. Throws InvalidConfig for a device that is there already.
  void add(std::unique_ptr<ComputeBackend> backend);
  /// Throws DeviceNotAvailable with the devices that exist.
  ComputeBackend& get(Device device) const;
  ComputeBackend* find(Device device) const;
  std::vector<ComputeBackend*> all() const;
  /// The ready device that meets the requirements, accelerators first, then the one with most free memory;
  /// a device that fails when it is asked does not count. Throws DeviceNotAvailable that says what each
  /// device lacks.
  ComputeBackend& find_best(const BackendRequirements& requirements = {}) const;

  /// Why devices of a kind that somebody may expect are missing, for messages: initialize() says.
  void explain_missing(DeviceType type, std::string why) { missing_[type] = std::move(why); }
  /// Empty where nobody explained it.
  std::string why_missing(DeviceType type) const;
  bool has(DeviceType type) const;

 private:
  BackendRegistry();
  std::vector<std::unique_ptr<ComputeBackend>> backends_;
  std::map<DeviceType, std::string> missing_{{DeviceType::cuda, "this build has no CUDA backend"},
                                             {DeviceType::meta, "meta has shapes and no values, for plans"}};
};

/// Shorthand for BackendRegistry::instance().get(device).
ComputeBackend& backend(Device device);

}  // namespace ingot

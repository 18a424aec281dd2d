#include "ingot/kernels/cuda/runtime/backend.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/units.h"
#include "ingot/kernels/cuda/runtime/clock.h"
#include "ingot/kernels/cuda/runtime/driver.h"
#include "ingot/kernels/cuda/runtime/kernel_executor.h"
#include "ingot/kernels/cuda/runtime/last_error.h"
#include "ingot/kernels/cuda/runtime/peak.h"

namespace ingot::kernels::cuda {
namespace {

std::string compiled_kernels() {
  const std::string cache = cache_directory();
  return cache.empty() ? cache : cache + "/kernels";
}

/// Work on a stream of its own, whose memory nobody else is given while this is alive.
class CudaCapturedWork final : public CapturedWork {
 public:
  CudaCapturedWork(int device, CachingAllocator& allocator)
      : device_(device), allocator_(allocator), stream_(driver::create_stream()) {
    allocator_.hold(stream_);
  }
  ~CudaCapturedWork() override {
    if (graph_ != nullptr) driver::destroy_graph(graph_);
    allocator_.drop(stream_);
    driver::destroy_stream(stream_);
  }
  CudaCapturedWork(const CudaCapturedWork&) = delete;
  CudaCapturedWork& operator=(const CudaCapturedWork&) = delete;

  void record(Device device, FunctionRef<void()> work) {
    driver::begin_capture(stream_);
    try {
      const StreamGuard guard({device, stream_});
      work();
    } catch (...) {
      driver::abandon_capture(stream_);
      throw;
    }
    graph_ = driver::end_capture(stream_);
  }
  void launch(Stream stream) override {
    driver::use(device_);
    driver::launch_graph(graph_, stream.native);
  }

 private:
  int device_;
  CachingAllocator& allocator_;
  void *stream_, *graph_ = nullptr;
};

class CudaBackend final : public ComputeBackend {
 public:
  CudaBackend(int index, CachingAllocator::Options options)
      : device_{DeviceType::cuda, static_cast<std::int8_t>(index)},
        allocator_(options),
        executor_(device_, compiled_kernels()) {
    const driver::DeviceProperties found = driver::properties(index);
    capabilities_.device_name = found.name;
    capabilities_.features = {fmt::format("sm_{}{}", found.major, found.minor)};
    capabilities_.dtypes = {DType::f32, DType::f16, DType::bf16};
    capabilities_.total_memory = found.memory;
    capabilities_.compute_units = found.multiprocessors;
    capabilities_.pci_address = found.pci_address;
    for (const DType dtype : capabilities_.dtypes) {
      if (const double peak = dense_peak(found.name, dtype); peak > 0) capabilities_.peak_flops[dtype] = peak;
    }
    capabilities_.streams = capabilities_.graph_capture = capabilities_.fuses_projections = true;
    capabilities_.matmul_alignment = 64;
    capabilities_.int8_matmul = true;
    capabilities_.attention = {"window", "documents", "softcap", "int8_cache", "cache_entries"};
    capabilities_.memory_alignment = options.granularity;
    version_ = driver::version();
  }

  Device device() const override { return device_; }
  std::string_view name() const override { return "cuda"; }
  std::string version() const override { return version_; }
  const BackendCapabilities& capabilities() const override { return capabilities_; }
  BackendStatus status() const override {
    if (shut_down_) return {BackendState::shut_down, last_error(device_.index)};
    const std::string lost = driver::why_lost(device_.index);
    if (lost.empty()) return {BackendState::ready, last_error(device_.index)};
    const std::string earlier = last_error(device_.index);  // which says what was asked of it
    return {BackendState::failed, earlier.empty() ? lost : earlier};
  }
  void shutdown() override {
    shut_down_ = true;
    trim();
  }

  void* allocate(std::size_t bytes, MemoryTag tag) override {
    use();
    tracker_.allocate(bytes, tag, to_string(device_));
    void* data = nullptr;
    try {
      data = allocator_.allocate(bytes, current_stream(device_).native);
    } catch (...) {
      tracker_.deallocate(bytes, tag);
      throw;
    }
    if (data == nullptr) {
      tracker_.deallocate(bytes, tag);
      OutOfMemory error(memory_report(), bytes, tracker_.allocated(), 0);
      note_error(device_.index, error.what());
      throw OutOfMemory(std::move(error));
    }
    return data;
  }
  void deallocate(void* data, std::size_t bytes, MemoryTag tag) noexcept override {
    try {
      use();
    } catch (const Error&) {
      // The device is lost, and an exception that says so is on its way or comes with the next call.
    }
    allocator_.deallocate(data, current_stream(device_).native);
    tracker_.deallocate(bytes, tag);
  }
  void* allocate_host(std::size_t bytes) override {
    use();
    void* data = driver::allocate_pinned(bytes);
    INGOT_CHECK(data != nullptr,
                OutOfMemory("host memory for copies to and from " + to_string(device_), bytes, 0, 0));
    return data;
  }
  void deallocate_host(void* data, std::size_t) noexcept override { driver::deallocate_pinned(data); }
  void trim() override {
    use();
    allocator_.trim();
  }
  MemoryInfo memory_info() const override {
    use();
    const driver::MemorySizes sizes = driver::memory_sizes();
    // What the cache holds and nobody uses is free to us.
    return {sizes.free + allocator_.reserved_bytes() - allocator_.used_bytes(), sizes.total};
  }
  MemoryTracker& memory() override { return tracker_; }

  std::unique_ptr<DeviceClock> make_clock() override { return kernels::cuda::make_clock(device_.index); }

  std::unique_ptr<CapturedWork> capture(FunctionRef<void()> work) override {
    use();
    auto captured = std::make_unique<CudaCapturedWork>(device_.index, allocator_);
    captured->record(device_, work);
    return captured;
  }

  KernelExecutor* kernel_executor() override {
    std::call_once(compiler_asked_, [&] {
      const std::string problem = driver::compiler_problem(device_.index);
      compiles_ = problem.empty();
      if (!compiles_) log(LogLevel::info, "ingot::cuda", "chains of operations are not fused: " + problem);
    });
    return compiles_ ? &executor_ : nullptr;
  }

  void copy(void* to, const void* from, std::size_t bytes, Stream stream) override {
    use();
    if (bytes > 0) driver::copy(to, from, bytes, stream.native);
  }
  void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, Stream stream) override {
    use();
    if (bytes > 0) driver::fill_bytes(to, value, bytes, stream.native);
  }

  Stream create_stream() override {
    use();
    return {device_, driver::create_stream()};
  }
  void destroy_stream(Stream stream) noexcept override { driver::destroy_stream(stream.native); }
  void synchronize(Stream stream) override {
    use();
    driver::synchronize(stream.native);
  }
  Event create_event() override {
    use();
    return {device_, driver::create_event()};
  }
  void destroy_event(Event event) noexcept override { driver::destroy_event(event.native); }
  void record(Event event, Stream stream) override {
    use();
    driver::record(event.native, stream.native);
  }
  void wait(Stream stream, Event event) override {
    use();
    driver::wait(stream.native, event.native);
  }
  void synchronize(Event event) override {
    use();
    driver::wait_for(event.native);
  }
  bool is_done(Event event) override {
    use();
    return driver::done(event.native);
  }

 private:
  void use() const { driver::use(device_.index); }

  // What fills the device, for the error that says that it is full.
  std::string memory_report() const {
    const MemoryInfo info = memory_info();
    std::string text = fmt::format("{}: {} of {} are free", to_string(device_), human_bytes(info.free),
                                   human_bytes(info.total));
    for (std::size_t i = 0; i < kMemoryTags; ++i) {
      const auto tag = static_cast<MemoryTag>(i);
      if (const std::size_t bytes = tracker_.allocated(tag); bytes > 0)
        text += fmt::format(", {} hold {}", ingot::name(tag), human_bytes(bytes));
    }
    return text + "; a smaller batch, shorter sequences or recomputation need less";
  }

  Device device_;
  BackendCapabilities capabilities_;
  std::string version_;
  CachingAllocator allocator_;
  CudaKernelExecutor executor_;
  MemoryTracker tracker_;
  bool shut_down_ = false;
  std::once_flag compiler_asked_;
  bool compiles_ = false;
};

}  // namespace

std::unique_ptr<ComputeBackend> make_cuda_backend(int index, CachingAllocator::Options options) {
  return std::make_unique<CudaBackend>(index, options);
}

}  // namespace ingot::kernels::cuda

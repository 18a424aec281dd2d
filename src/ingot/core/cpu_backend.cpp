#include "ingot/core/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include <sys/sysinfo.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/core/cpu_allocator.h"

namespace ingot {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "CPU";
}

std::vector<std::string> processor_features() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) found.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) found.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) found.emplace_back("avx512");
  if (__builtin_cpu_supports("avx512vnni")) found.emplace_back("avx512_vnni");
  if (__builtin_cpu_supports("avx512bf16")) found.emplace_back("avx512_bf16");
#endif
  return found;
}

bool has(const std::vector<std::string>& features, std::string_view wanted) {
  return std::ranges::find(features, wanted) != features.end();
}

MemoryInfo system_memory() {
  // MemAvailable counts what the page cache would give up; sysinfo's freeram does not.
  std::ifstream file("/proc/meminfo");
  MemoryInfo info;
  std::string key, unit;
  for (std::size_t kib = 0; file >> key >> kib >> unit;) {
    if (key == "MemTotal:") info.total = kib * 1024;
    if (key == "MemAvailable:") info.free = kib * 1024;
  }
  return info;
}

class CpuBackend final : public ComputeBackend {
 public:
  CpuBackend() {
    capabilities_.device_name = processor_name();
    capabilities_.features = processor_features();
    capabilities_.dtypes = {DType::f32, DType::f64, DType::f16, DType::bf16};
    capabilities_.total_memory = system_memory().total;
    capabilities_.host_memory = true;
    capabilities_.int8_matmul = has(capabilities_.features, "avx512_vnni");
    capabilities_.attention = {"window", "documents", "softcap", "int8_cache"};
    capabilities_.compute_units = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  }

  Device device() const override { return kCpu; }
  std::string_view name() const override { return "cpu"; }
  std::string version() const override { return "1"; }
  const BackendCapabilities& capabilities() const override { return capabilities_; }
  BackendStatus status() const override {
    return {shut_down_ ? BackendState::shut_down : BackendState::ready, {}};
  }
  void shutdown() override {
    shut_down_ = true;
    allocator_.trim();
  }

  void* allocate(std::size_t bytes, MemoryTag tag) override {
    tracker_.allocate(bytes, tag, "cpu");
    void* data = allocator_.allocate(bytes);
    if (data == nullptr) {
      tracker_.deallocate(bytes, tag);
      throw OutOfMemory("cpu", bytes, tracker_.allocated(), 0);
    }
    return data;
  }
  void deallocate(void* data, std::size_t bytes, MemoryTag tag) noexcept override {
    allocator_.deallocate(data, bytes);
    tracker_.deallocate(bytes, tag);
  }
  void* allocate_host(std::size_t bytes) override { return allocate(bytes, MemoryTag::data); }
  void deallocate_host(void* data, std::size_t bytes) noexcept override {
    deallocate(data, bytes, MemoryTag::data);
  }
  void trim() override { allocator_.trim(); }
  MemoryInfo memory_info() const override { return system_memory(); }
  MemoryTracker& memory() override { return tracker_; }

  void copy(void* to, const void* from, std::size_t bytes, Stream) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, Stream) override {
    if (bytes > 0) std::memset(to, value, bytes);
  }

  Stream create_stream() override { return {}; }
  void destroy_stream(Stream) noexcept override {}
  void synchronize(Stream) override {}
  Event create_event() override { return {}; }
  void destroy_event(Event) noexcept override {}
  void record(Event, Stream) override {}
  void wait(Stream, Event) override {}
  void synchronize(Event) override {}

 private:
  BackendCapabilities capabilities_;
  CpuAllocator allocator_;
  MemoryTracker tracker_;
  bool shut_down_ = false;
};

}  // namespace

std::unique_ptr<ComputeBackend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace ingot

#include "ingot/core/backend.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

/// A GPU that says it is ready and fails at whatever is asked of it, as one does that another process has to
/// itself.
class BusyCard final : public ComputeBackend {
 public:
  Device device() const override { return {DeviceType::cuda, 9}; }
  std::string_view name() const override { return "busy"; }
  std::string version() const override { return ""; }
  const BackendCapabilities& capabilities() const override { return capabilities_; }
  BackendStatus status() const override { return {BackendState::ready, ""}; }
  void shutdown() override {}
  void* allocate(std::size_t, MemoryTag) override { busy(); }
  void deallocate(void*, std::size_t, MemoryTag) noexcept override {}
  void* allocate_host(std::size_t) override { busy(); }
  void deallocate_host(void*, std::size_t) noexcept override {}
  void trim() override {}
  MemoryInfo memory_info() const override { busy(); }
  MemoryTracker& memory() override { busy(); }
  void copy(void*, const void*, std::size_t, Stream) override { busy(); }
  void fill_bytes(void*, std::uint8_t, std::size_t, Stream) override { busy(); }
  Stream create_stream() override { busy(); }
  void destroy_stream(Stream) noexcept override {}
  void synchronize(Stream) override { busy(); }
  Event create_event() override { busy(); }
  void destroy_event(Event) noexcept override {}
  void record(Event, Stream) override { busy(); }
  void wait(Stream, Event) override { busy(); }
  void synchronize(Event) override { busy(); }

 private:
  [[noreturn]] static void busy() { throw Error("CUDA: device busy"); }
  BackendCapabilities capabilities_;
};

// In a process of its own, since a registry keeps what it was given.
[[noreturn]] void choose_beside_a_busy_card() {
  BackendRegistry& registry = BackendRegistry::instance();
  registry.add(std::make_unique<BusyCard>());
  bool told = false;
  try {
    registry.find_best({.memory = std::size_t{1} << 60});
  } catch (const DeviceNotAvailable& error) {
    told = std::string(error.what()).find("cuda:9 lacks a working state: CUDA: device busy") !=
           std::string::npos;
  }
  std::exit(registry.find_best().device().is_cpu() && told ? 0 : 1);
}

TEST(BackendRegistry, PassesOverADeviceThatFailsWhenItIsAsked) {
  EXPECT_EXIT(choose_beside_a_busy_card(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ingot

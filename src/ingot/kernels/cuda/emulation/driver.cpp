#include "ingot/kernels/cuda/driver.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "ingot/base/error.h"
#include "ingot/kernels/cuda/emulation/memory.h"
#include "ingot/kernels/cuda/launch.h"
#include "ingot/kernels/cuda/register.h"

// Streams of the emulator do their work before a call returns, so events have nothing to wait for.
namespace ingot::kernels::cuda::driver {
namespace {

int handles = 0;  // streams and events only have to differ from each other and from null
void* new_handle() { return new int(++handles); }

using Recording = std::vector<std::function<void()>>;
std::map<void*, Recording> recordings;  // of the streams that are being captured
void delete_handle(void* handle) { delete static_cast<int*>(handle); }

void check_not_capturing(void* stream) {
  INGOT_CHECK(!recordings.contains(stream),
              Error("CUDA: work on the device failed: operation not permitted when stream is capturing"));
}

}  // namespace

int device_count(std::string&) noexcept { return 1; }
DeviceProperties properties(int) {
  return {.name = "emulated CUDA device (tests only)",
          .major = 9,
          .minor = 0,
          .multiprocessors = 4,
          .memory = emulation::device_memory(),
          .shared_memory = 227 * 1024};
}
std::string version() { return "emulated"; }
void use(int) {}
MemorySizes memory_sizes() { return {emulation::free_memory(), emulation::device_memory()}; }

void* allocate(std::size_t bytes) { return emulation::allocate(bytes); }
void deallocate(void* data) noexcept { emulation::deallocate(data); }
void* allocate_pinned(std::size_t bytes) { return std::malloc(bytes); }
void deallocate_pinned(void* data) noexcept { std::free(data); }

void copy(void* to, const void* from, std::size_t bytes, void* stream) {
  INGOT_CHECK(!recordings.contains(stream) ||
                  (emulation::is_device_pointer(to) && emulation::is_device_pointer(from)),
              Error(kHostCopyInCapture));
  emulation::submit(stream, [=] {
    const emulation::Access access;
    std::memcpy(to, from, bytes);
    emulation::check_guards("copy");
  });
}
void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, void* stream) {
  emulation::submit(stream, [=] {
    const emulation::Access access;
    std::memset(to, value, bytes);
    emulation::check_guards("fill_bytes");
  });
}

void* create_stream() { return new_handle(); }
void destroy_stream(void* stream) noexcept { delete_handle(stream); }
void synchronize(void* stream) { check_not_capturing(stream); }
void* create_event() { return new_handle(); }
void destroy_event(void* event) noexcept { delete_handle(event); }
void record(void*, void*) {}
void wait(void*, void*) {}
bool done(void*) { return true; }

void begin_capture(void* stream) {
  check_not_capturing(stream);
  recordings[stream];
}
void* end_capture(void* stream) {
  auto node = recordings.extract(stream);
  return new Recording(std::move(node.mapped()));
}
void abandon_capture(void* stream) noexcept { recordings.erase(stream); }
void launch_graph(void* graph, void*) {
  for (const auto& work : *static_cast<Recording*>(graph)) work();
}
void destroy_graph(void* graph) noexcept { delete static_cast<Recording*>(graph); }

}  // namespace ingot::kernels::cuda::driver

void ingot::kernels::cuda::register_libraries() {}

void ingot::kernels::cuda::emulation::submit(void* stream, std::function<void()> work) {
  const auto recording = driver::recordings.find(stream);
  if (recording == driver::recordings.end()) {
    work();
  } else {
    recording->second.push_back(std::move(work));
  }
}

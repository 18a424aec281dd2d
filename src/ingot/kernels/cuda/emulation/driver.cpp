#include "ingot/kernels/cuda/driver.h"

#include <cstdlib>
#include <cstring>

#include "ingot/kernels/cuda/emulation/memory.h"

// Streams of the emulator do their work before a call returns, so events have nothing to wait for.
namespace ingot::kernels::cuda::driver {
namespace {

int handles = 0;  // streams and events only have to differ from each other and from null
void* new_handle() { return new int(++handles); }
void delete_handle(void* handle) { delete static_cast<int*>(handle); }

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

void copy(void* to, const void* from, std::size_t bytes, void*) {
  const emulation::Access access;
  std::memcpy(to, from, bytes);
  emulation::check_guards("copy");
}
void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, void*) {
  const emulation::Access access;
  std::memset(to, value, bytes);
  emulation::check_guards("fill_bytes");
}

void* create_stream() { return new_handle(); }
void destroy_stream(void* stream) noexcept { delete_handle(stream); }
void synchronize(void*) {}
void* create_event() { return new_handle(); }
void destroy_event(void* event) noexcept { delete_handle(event); }
void record(void*, void*) {}
void wait(void*, void*) {}
bool done(void*) { return true; }

}  // namespace ingot::kernels::cuda::driver

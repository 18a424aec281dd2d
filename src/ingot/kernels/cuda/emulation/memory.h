#pragma once

#include <cstddef>
#include <string>

/// The memory of a device that is not there. Host code cannot touch it: outside of kernels and copies the
/// pages are protected, so that forgetting to copy is a crash with a message. Blocks are filled with 0xff
/// (NaN in every floating dtype) when they are made and when they are freed, and have guard bytes around
/// them that are checked after every kernel.
namespace ingot::kernels::cuda::emulation {

/// What stands around blocks, and around the shared memory of a block of threads: bytes at least on each
/// side, and their value.
inline constexpr std::size_t kGuard = 64;
inline constexpr unsigned char kGuardByte = 0xfd;

/// Null where the device, of device_memory() bytes, is full.
void* allocate(std::size_t bytes);
void deallocate(void* data) noexcept;
std::size_t device_memory();
void set_device_memory(std::size_t bytes);
std::size_t free_memory();

bool is_device_pointer(const void* data);
/// Throws KernelError, naming `by`, where a guard byte was written.
void check_guards(const char* by);

/// While one is alive, device memory can be read and written.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

}  // namespace ingot::kernels::cuda::emulation

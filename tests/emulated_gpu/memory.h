#pragma once

#include <cstddef>
#include <optional>
#include <string>

/// The memory of devices that are not there. Host code cannot touch it: outside of kernels and copies the
/// pages are protected, so that forgetting to copy is a crash with a message; in a kernel those of the other
/// devices are. Blocks are filled with 0xff
/// (NaN in every floating dtype) when they are made and when they are freed, and have guard bytes around
/// them that are checked after every kernel.
namespace ingot::kernels::cuda::emulation {

/// What stands around blocks, and around the shared memory of a block of threads: bytes at least on each
/// side, and their value.
inline constexpr std::size_t kGuard = 64;
inline constexpr unsigned char kGuardByte = 0xfd;

/// How many devices there can be, and are: one at first.
inline constexpr int kMostDevices = 2;
int devices();
void set_devices(int count);
/// The device that the calling thread's next calls are about, those below too.
int current_device();
void use_device(int device);

/// From now on every call on the device fails, as after an error that ends its context; or no longer.
void set_lost(int device, bool lost);
bool is_lost(int device);

/// Shared memory that a block of a device can have: the second has that of smaller GPUs (compute capability
/// 8.6 and 8.9).
constexpr std::size_t shared_memory(int device) { return device == 0 ? 227 * 1024 : 99 * 1024; }

/// Null where the device, of device_memory() bytes, is full.
void* allocate(std::size_t bytes);
/// Of any device.
void deallocate(void* data) noexcept;
std::size_t device_memory();
void set_device_memory(std::size_t bytes);
std::size_t free_memory();

/// Whose memory it is; none of a host's.
std::optional<int> device_of(const void* data);
/// Throws KernelError, naming `by`, where a guard byte of memory that can be accessed was written.
void check_guards(const char* by);

/// While one is alive, the memory of one device, or of all, can be read and written.
class Access {
 public:
  Access();
  explicit Access(int device);
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  int begin_, end_;  // of the devices
};

}  // namespace ingot::kernels::cuda::emulation

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// What this backend asks of a CUDA runtime, and nothing more. hardware/driver.cpp answers with NVIDIA's; an
/// emulated device (tests/emulated_gpu) with the host's memory, so that everything above this header is
/// tested without a GPU. Every function throws ingot::Error with the driver's words where it fails, unless it
/// says otherwise.
namespace ingot::kernels::cuda::driver {

/// What ends the message of an error whose cause may be earlier work.
inline constexpr const char* kMayBeEarlier =
    ". Work runs after the call that asked for it; INGOT_CUDA_SYNC=1 waits after every kernel and names the "
    "one "
    "at fault";

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::size_t memory = 0;
  std::size_t shared_memory = 0;  ///< bytes that a block can have after it asked for more than 48 KiB
  std::string pci_address;        ///< domain:bus:device.function; empty for an emulated device
};

/// How many devices there are; 0, and in `problem` why, where there is no driver or no device. Never throws.
int device_count(std::string& problem) noexcept;
DeviceProperties properties(int device);
/// "CUDA 13.0, driver 13.1"
std::string version();

/// Chooses the device that the calling thread's next calls are about.
void use(int device);

/// What the driver says of a device that this process can no longer use; empty where it can. Never throws.
std::string why_lost(int device);

struct MemorySizes {
  std::size_t free = 0, total = 0;
};
MemorySizes memory_sizes();
/// Device memory, aligned to 256 bytes; null where there is not enough.
void* allocate(std::size_t bytes);
void deallocate(void* data) noexcept;
/// Host memory that copies reach without a detour; null where there is not enough.
void* allocate_pinned(std::size_t bytes);
void deallocate_pinned(void* data) noexcept;

/// What copy() says of pageable memory of the host while the stream records: it will have gone when the work
/// runs.
inline constexpr const char* kHostCopyInCapture =
    "CUDA: work that is being captured copies from or to the host; make its inputs on the device before, and "
    "read its results after";

// Streams and events are the runtime's own handles; a null stream is the default one.
void copy(void* to, const void* from, std::size_t bytes, void* stream);
void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, void* stream);
void* create_stream();
void destroy_stream(void* stream) noexcept;
void synchronize(void* stream);
void* create_event();
/// An event that keeps the time when the device came to it, which makes recording it cost more.
void* create_timed_event();
/// Between two timed events of one stream, by the device's clock (steps of half a microsecond); waits for
/// both.
double seconds_between(void* from, void* to);
void destroy_event(void* event) noexcept;
void record(void* event, void* stream);
void wait(void* stream, void* event);
/// Blocks until all work before the event is done.
void wait_for(void* event);
/// Whether work that is put into the stream runs now: it does not while the stream records.
bool can_wait(void* stream);
/// Times work on the device, by its own clock.
class Stopwatch {
 public:
  Stopwatch();
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  void start(void* stream) const;
  /// Seconds since start(); waits for the work between.
  double stop(void* stream) const;

 private:
  void *begin_, *end_;
};
/// Whether all work before the event is done.
bool done(void* event);

// Work that is recorded and runs again.
/// From now on what is put into the stream is recorded, and may not be waited for.
void begin_capture(void* stream);
/// The recorded work.
void* end_capture(void* stream);
void abandon_capture(void* stream) noexcept;
void launch_graph(void* graph, void* stream);
void destroy_graph(void* graph) noexcept;

// Kernels that are compiled at run time.
/// Why kernels cannot be compiled for the device; empty where they can.
std::string compiler_problem(int device);
/// What a compiled image depends on but for its source: the compiler, its version and the code's
/// architecture.
std::string compiler(int device);
/// Compiles CUDA C++ for the device; throws KernelError(function, the compiler's messages).
std::string compile(int device, std::string_view source, const std::string& function);
/// Puts an image on the current device and finds a function in it.
void* load_module(std::string_view image, const std::string& function);
void unload_module(void* module) noexcept;
struct FunctionInfo {
  int registers = 0, most_threads = 0;            ///< of a thread; in a block
  std::size_t shared_bytes = 0, local_bytes = 0;  ///< of a block; of a thread
};
FunctionInfo function_info(void* module);
/// Every argument is a pointer to its value.
void launch_module(void* module, const char* function, std::array<unsigned, 3> grid,
                   std::array<unsigned, 3> block, std::size_t shared_bytes, void** arguments, void* stream);

}  // namespace ingot::kernels::cuda::driver

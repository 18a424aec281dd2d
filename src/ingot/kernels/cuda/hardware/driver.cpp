#include "ingot/kernels/cuda/runtime/driver.h"

#include <algorithm>
#include <memory>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/kernels/cuda/runtime/last_error.h"
#include "ingot/kernels/cuda/runtime/nvrtc.h"

namespace ingot::kernels::cuda::driver {
namespace {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky must not show again at the next, innocent, call
  const std::string text = fmt::format("CUDA: {} failed: {} ({}){}", what, cudaGetErrorString(result),
                                       cudaGetErrorName(result), kMayBeEarlier);
  if (int device = 0; cudaGetDevice(&device) == cudaSuccess) note_error(device, text);
  throw Error(text);
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// Why there is no device, in words that say what to do.
std::string why_none(cudaError_t result) {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  if (driver == 0) return "there is no NVIDIA driver";
  if (result == cudaErrorInsufficientDriver)
    return fmt::format("the NVIDIA driver is for CUDA {}, and this build needs one for CUDA {} or newer",
                       version_text(driver), version_text(runtime));
  if (result != cudaSuccess && result != cudaErrorNoDevice) return cudaGetErrorString(result);
  const std::string visible = first_variable({"CUDA_VISIBLE_DEVICES"});
  return visible.empty() ? "there is no CUDA device"
                         : "there is no CUDA device among CUDA_VISIBLE_DEVICES=" + visible;
}

}  // namespace

int device_count(std::string& problem) noexcept {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  problem = why_none(result);
  return 0;
}

DeviceProperties properties(int device) {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, device), "asking for the device's properties");
  return {.name = found.name,
          .major = found.major,
          .minor = found.minor,
          .multiprocessors = found.multiProcessorCount,
          .memory = found.totalGlobalMem,
          .shared_memory = found.sharedMemPerBlockOptin,
          .pci_address =
              fmt::format("{:04x}:{:02x}:{:02x}.0", found.pciDomainID, found.pciBusID, found.pciDeviceID)};
}

std::string version() {
  int runtime = 0, driver = 0;
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  return fmt::format("CUDA {}, driver for {}", version_text(runtime), version_text(driver));
}

void use(int device) { check(cudaSetDevice(device), "choosing the device"); }

// After an error that ends the context every call returns it again.
std::string why_lost(int device) {
  std::size_t free = 0, total = 0;
  cudaError_t result = cudaSetDevice(device);
  if (result == cudaSuccess) result = cudaMemGetInfo(&free, &total);
  if (result == cudaSuccess) return {};
  cudaGetLastError();
  return fmt::format("CUDA: {} ({})", cudaGetErrorString(result), cudaGetErrorName(result));
}

MemorySizes memory_sizes() {
  MemorySizes sizes;
  check(cudaMemGetInfo(&sizes.free, &sizes.total), "asking for free memory");
  return sizes;
}

void* allocate(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t result = cudaMalloc(&data, bytes);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(result, "allocating memory");
  return data;
}

// An error here would have shown, or will show, at a synchronization; memory is given back in destructors.
void deallocate(void* data) noexcept { cudaFree(data); }

void* allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t result = cudaHostAlloc(&data, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(result, "allocating pinned memory");
  return data;
}

void deallocate_pinned(void* data) noexcept { cudaFreeHost(data); }

namespace {

bool is_capturing(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_of(stream), &status), "asking whether a stream records");
  return status != cudaStreamCaptureStatusNone;
}

bool is_pageable(const void* data) {
  cudaPointerAttributes found{};
  check(cudaPointerGetAttributes(&found, data), "asking where memory is");
  return found.type == cudaMemoryTypeUnregistered;
}

}  // namespace

void copy(void* to, const void* from, std::size_t bytes, void* stream) {
  INGOT_CHECK(!is_capturing(stream) || (!is_pageable(to) && !is_pageable(from)), Error(kHostCopyInCapture));
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)), "a copy");
}

void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, void* stream) {
  check(cudaMemsetAsync(to, value, bytes, stream_of(stream)), "a fill");
}

void* create_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return stream;
}

void destroy_stream(void* stream) noexcept { cudaStreamDestroy(stream_of(stream)); }

void synchronize(void* stream) { check(cudaStreamSynchronize(stream_of(stream)), "work on the device"); }

void* create_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return event;
}

void* create_timed_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making an event");
  return event;
}

double seconds_between(void* from, void* to) {
  wait_for(from);
  wait_for(to);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)), "timing work");
  return static_cast<double>(milliseconds) * 1e-3;
}

void destroy_event(void* event) noexcept { cudaEventDestroy(event_of(event)); }

void record(void* event, void* stream) {
  check(cudaEventRecord(event_of(event), stream_of(stream)), "recording an event");
}

void wait(void* stream, void* event) {
  check(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "waiting for an event");
}

void wait_for(void* event) { check(cudaEventSynchronize(event_of(event)), "work on the device"); }

bool can_wait(void* stream) { return !is_capturing(stream); }

Stopwatch::Stopwatch() : begin_(create_timed_event()), end_(create_timed_event()) {}
Stopwatch::~Stopwatch() {
  for (void* event : {begin_, end_}) destroy_event(event);
}
void Stopwatch::start(void* stream) const { record(begin_, stream); }
double Stopwatch::stop(void* stream) const {
  record(end_, stream);
  return seconds_between(begin_, end_);
}

bool done(void* event) {
  const cudaError_t result = cudaEventQuery(event_of(event));
  if (result == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(result, "work on the device");
  return true;
}

namespace {

std::string architecture(int device) {
  const DeviceProperties found = properties(device);
  // The "a" unlocks what a later GPU may drop; code is compiled for the GPU that is there.
  return fmt::format("sm_{}{}{}", found.major, found.minor, found.major >= 9 ? "a" : "");
}

struct LoadedModule {
  cudaLibrary_t library;
  cudaKernel_t function;
};

}  // namespace

void begin_capture(void* stream) {
  check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeRelaxed), "beginning to record");
}

void* end_capture(void* stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_of(stream), &graph), "recording work");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t result = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check(result, "making recorded work ready");
  return ready;
}

void abandon_capture(void* stream) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream_of(stream), &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}

void launch_graph(void* graph, void* stream) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)), "running recorded work");
}

void destroy_graph(void* graph) noexcept { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

std::string compiler_problem(int device) {
  if (std::string problem = nvrtc::problem(); !problem.empty()) return problem;
  const DeviceProperties found = properties(device);
  if (nvrtc::knows(10 * found.major + found.minor)) return nvrtc::trial(architecture(device));
  return fmt::format("{} does not know compute capability {}.{} ({}); install a newer one", nvrtc::version(),
                     found.major, found.minor, found.name);
}

std::string compiler(int device) { return nvrtc::version() + " " + architecture(device); }

std::string compile(int device, std::string_view source, const std::string& function) {
  return nvrtc::compile(source, function, architecture(device));
}

void* load_module(std::string_view image, const std::string& function) {
  auto loaded = std::make_unique<LoadedModule>();
  check(cudaLibraryLoadData(&loaded->library, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading a compiled kernel");
  if (cudaLibraryGetKernel(&loaded->function, loaded->library, function.c_str()) == cudaSuccess)
    return loaded.release();
  cudaGetLastError();
  cudaLibraryUnload(loaded->library);
  throw KernelError(function, "is not in the source; declare it extern \"C\" __global__ void");
}

void unload_module(void* module) noexcept {
  const std::unique_ptr<LoadedModule> loaded(static_cast<LoadedModule*>(module));
  cudaLibraryUnload(loaded->library);
}

FunctionInfo function_info(void* module) {
  cudaFuncAttributes found{};
  check(cudaFuncGetAttributes(&found, static_cast<LoadedModule*>(module)->function),
        "asking for a kernel's properties");
  return {.registers = found.numRegs,
          .most_threads = found.maxThreadsPerBlock,
          .shared_bytes = found.sharedSizeBytes,
          .local_bytes = found.localSizeBytes};
}

void launch_module(void* module, const char* function, std::array<unsigned, 3> grid,
                   std::array<unsigned, 3> block, std::size_t shared_bytes, void** arguments, void* stream) {
  const auto kernel = static_cast<LoadedModule*>(module)->function;
  cudaError_t result = cudaSuccess;
  if (shared_bytes > 32 * 1024)  // a block has 48 KiB, with what the kernel declares, and more where it asks
    result =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (result == cudaSuccess)
    result = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(grid[0], grid[1], grid[2]),
                              dim3(block[0], block[1], block[2]), arguments, shared_bytes, stream_of(stream));
  if (result == cudaSuccess) return;
  cudaGetLastError();
  throw KernelError(function,
                    fmt::format("{}: launched as {} x {} x {} blocks of {} x {} x {} threads with {} "
                                "bytes of shared memory",
                                cudaGetErrorString(result), grid[0], grid[1], grid[2], block[0], block[1],
                                block[2], shared_bytes));
}

}  // namespace ingot::kernels::cuda::driver

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ingot/core/backend.h"
#include "ingot/core/kernel_executor.h"

namespace ingot::kernels::cuda {

/// Kernels from source at run time, for one device. What the compiler made is kept on disk, by source,
/// function, architecture and the compiler's version. Any thread.
class CudaKernelExecutor final : public KernelExecutor {
 public:
  /// cache: the directory that keeps compiled kernels; empty: none does.
  CudaKernelExecutor(Device device, std::string cache);
  ~CudaKernelExecutor() override;

  std::uint64_t load_kernel(std::string_view source, std::string_view function) override;
  void execute_kernel(std::uint64_t handle, const Grid& grid, std::span<const KernelArgument> arguments,
                      Stream stream) override;
  KernelInfo kernel_info(std::uint64_t handle) override;
  void unload_kernel(std::uint64_t handle) override;

 private:
  struct Module;
  std::shared_ptr<Module> find(std::uint64_t handle);

  Device device_;
  std::string cache_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Module>> modules_;
  std::uint64_t last_handle_;  // other numbers on each device
};

}  // namespace ingot::kernels::cuda

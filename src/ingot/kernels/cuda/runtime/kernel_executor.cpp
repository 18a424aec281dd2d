#include "ingot/kernels/cuda/runtime/kernel_executor.h"

#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/kernels/cuda/runtime/driver.h"
#include "ingot/kernels/cuda/runtime/sync.h"

namespace ingot::kernels::cuda {

struct CudaKernelExecutor::Module {
  std::string function;
  KernelSignature signature;
  void* handle = nullptr;

  Module(std::string function_, std::string_view source, std::string_view image)
      : function(std::move(function_)),
        signature(source, function),
        handle(driver::load_module(image, function)) {}
  ~Module() { driver::unload_module(handle); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
};

namespace {

// A file of the cache is the SHA-256 of an image and the image: what a full disk cut off is compiled again.
constexpr std::size_t kDigest = 64;

std::string cached_image(const std::string& path) {
  std::error_code missing;
  if (path.empty() || !std::filesystem::exists(path, missing)) return {};
  std::string file = read_file(path);
  if (file.size() <= kDigest) return {};
  std::string image = file.substr(kDigest);
  return file.compare(0, kDigest, sha256_hex(image)) == 0 ? image : std::string();
}

void keep_image(const std::string& path, const std::string& image) {
  if (path.empty()) return;
  try {
    make_directories(std::filesystem::path(path).parent_path().string());
    write_file_atomically(path, sha256_hex(image) + image);
  } catch (const Error& error) {  // a home that cannot be written costs time, not the run
    log(LogLevel::debug, "ingot::cuda", fmt::format("a compiled kernel is not kept: {}", error.what()));
  }
}

}  // namespace

CudaKernelExecutor::CudaKernelExecutor(Device device, std::string cache)
    : device_(device),
      cache_(std::move(cache)),
      last_handle_(static_cast<std::uint64_t>(device.index) << 48U) {}
CudaKernelExecutor::~CudaKernelExecutor() = default;

std::uint64_t CudaKernelExecutor::load_kernel(std::string_view source, std::string_view function) {
  const std::string name(function);
  driver::use(device_.index);
  const std::string key =
      sha256_hex(fmt::format("{}\n{}\n{}", driver::compiler(device_.index), name, source));
  const std::string path = cache_.empty() ? "" : fmt::format("{}/{}.cubin", cache_, key);
  std::string image = cached_image(path);
  if (image.empty()) {
    image = driver::compile(device_.index, source, name);
    keep_image(path, image);
  }
  auto module = std::make_shared<Module>(name, source, image);
  const std::lock_guard lock(mutex_);
  modules_.emplace(++last_handle_, std::move(module));
  return last_handle_;
}

void CudaKernelExecutor::execute_kernel(std::uint64_t handle, const Grid& grid,
                                        std::span<const KernelArgument> arguments, Stream stream) {
  const std::shared_ptr<Module> module = find(handle);
  module->signature.check(arguments, device_);
  std::vector<KernelArgument> copied(arguments.begin(), arguments.end());
  std::vector<void*> values;
  values.reserve(copied.size());
  for (KernelArgument& argument : copied) values.push_back(argument.value());
  driver::use(device_.index);
  driver::launch_module(
      module->handle, module->function.c_str(), {grid.blocks.x, grid.blocks.y, grid.blocks.z},
      {grid.threads.x, grid.threads.y, grid.threads.z}, grid.shared_bytes, values.data(), stream.native);
  wait_after_launch(module->function.c_str(), stream);
}

KernelInfo CudaKernelExecutor::kernel_info(std::uint64_t handle) {
  const std::shared_ptr<Module> module = find(handle);
  driver::use(device_.index);
  const driver::FunctionInfo info = driver::function_info(module->handle);
  return {.function = module->function,
          .registers = info.registers,
          .most_threads = info.most_threads,
          .shared_bytes = info.shared_bytes,
          .local_bytes = info.local_bytes};
}

void CudaKernelExecutor::unload_kernel(std::uint64_t handle) {
  find(handle);  // throws where there is none
  const std::lock_guard lock(mutex_);
  modules_.erase(handle);
}

std::shared_ptr<CudaKernelExecutor::Module> CudaKernelExecutor::find(std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = modules_.find(handle);
  INGOT_CHECK(found != modules_.end(),
              KernelError(fmt::format("handle {}", handle),
                          fmt::format("names no loaded kernel of {}; it was unloaded, or another device "
                                      "loaded it",
                                      to_string(device_))));
  return found->second;
}

}  // namespace ingot::kernels::cuda

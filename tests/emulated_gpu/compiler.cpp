#include "tests/emulated_gpu/compiler.h"

#include <cstdlib>
#include <filesystem>
#include <memory>

#include <dlfcn.h>
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/shell.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/runtime/driver.h"

// Kernels from source on the emulated device: the host's compiler makes a library of them, which finds the
// emulator in this program.
namespace ingot::kernels::cuda {
namespace {

namespace fs = std::filesystem;

std::string root;

constexpr const char* kBefore = R"(#include <utility>
#include "ingot/kernels/cuda/hardware/launch.h"
using namespace ingot::kernels::cuda;
#line 1 "{0}.cu"
{1}
#line 1 "launch of {0}"
)";
// The arguments come as pointers; the kernel's own type says to what.
constexpr const char* kAfter = R"(
template <class... P, std::size_t... i>
void ingot_run(const LaunchSite& site, void (*kernel)(P...), Size3 grid, Size3 block, std::size_t shared_bytes,
               void** arguments, std::index_sequence<i...>) {{
  launch(site, kernel, grid, block, shared_bytes, *static_cast<P*>(arguments[i])...);
}}
template <class... P>
void ingot_run(const LaunchSite& site, void (*kernel)(P...), Size3 grid, Size3 block, std::size_t shared_bytes,
               void** arguments) {{
  ingot_run(site, kernel, grid, block, shared_bytes, arguments, std::index_sequence_for<P...>());
}}
extern "C" void ingot_run_{0}(const LaunchSite* site, Size3 grid, Size3 block, std::size_t shared_bytes,
                              void** arguments) {{
  ingot_run(*site, {0}, grid, block, shared_bytes, arguments);
}}
)";

using RunFunction = void(const LaunchSite*, Size3, Size3, std::size_t, void**);

class ScratchDirectory {
 public:
  ScratchDirectory() : path_((fs::temp_directory_path() / "ingot_kernel_XXXXXX").string()) {
    INGOT_CHECK(mkdtemp(path_.data()) != nullptr, IoError(path_, "cannot be made"));
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string at(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct LoadedLibrary {
  ScratchDirectory directory;
  void* handle = nullptr;
  RunFunction* run = nullptr;

  ~LoadedLibrary() {
    if (handle != nullptr) dlclose(handle);
  }
};

}  // namespace

void emulation::compile_in(std::string source_root) { root = std::move(source_root); }

namespace driver {

std::string compiler_problem(int) {
  return root.empty() ? "the emulator was not told where its sources are" : "";
}
std::string compiler(int) { return "the host's compiler"; }

std::string compile(int, std::string_view source, const std::string& function) {
  const ScratchDirectory directory;
  const std::string text = fmt::format(fmt::runtime(std::string(kBefore) + kAfter), function, source);
  write_file_atomically(directory.at("kernel.cpp"), text);
  const std::string command =
      fmt::format("c++ -std=c++20 -O1 -shared -fPIC -I {} -I {} -I {} -o {} {} 2> {}",
                  shell_quoted(root + "/tests/emulated_gpu/include"), shell_quoted(root),
                  shell_quoted(root + "/src"), shell_quoted(directory.at("kernel.so")),
                  shell_quoted(directory.at("kernel.cpp")), shell_quoted(directory.at("log")));
  // NOLINTNEXTLINE(concurrency-mt-unsafe, cert-env33-c): tests only
  const bool compiled = std::system(command.c_str()) == 0;
  INGOT_CHECK(compiled,
              KernelError(function, "does not compile for the emulator:\n" + read_file(directory.at("log"))));
  return read_file(directory.at("kernel.so"));
}

void* load_module(std::string_view image, const std::string& function) {
  auto library = std::make_unique<LoadedLibrary>();
  const std::string path = library->directory.at("kernel.so");
  write_file_atomically(path, image);
  library->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  INGOT_CHECK(library->handle != nullptr,
              KernelError(function, fmt::format("cannot be loaded: {}", dlerror())));
  library->run = reinterpret_cast<RunFunction*>(dlsym(library->handle, ("ingot_run_" + function).c_str()));
  INGOT_CHECK(library->run != nullptr, KernelError(function, "is not in the image"));
  return library.release();
}

void unload_module(void* module) noexcept { delete static_cast<LoadedLibrary*>(module); }

FunctionInfo function_info(void*) { return {.registers = 0, .most_threads = 1024}; }

void launch_module(void* module, const char* function, std::array<unsigned, 3> grid,
                   std::array<unsigned, 3> block, std::size_t shared_bytes, void** arguments, void* stream) {
  const LaunchSite site{
      function, {{DeviceType::cuda, static_cast<std::int8_t>(emulation::current_device())}, stream}, {}};
  static_cast<LoadedLibrary*>(module)->run(&site, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
                                           shared_bytes, arguments);
}

}  // namespace driver
}  // namespace ingot::kernels::cuda

#include "ingot/kernels/cuda/nvrtc.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot::kernels::cuda::nvrtc {
namespace {

// The library's functions as its C interface has them; declared here, so that no toolkit is needed to build.
using Result = int;
using Program = void*;

struct Library {
  std::string problem;
  Result (*version)(int* major, int* minor) = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*create)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                   const char* const* names) = nullptr;
  Result (*compile)(Program, int options, const char* const* texts) = nullptr;
  Result (*log_size)(Program, std::size_t*) = nullptr;
  Result (*log)(Program, char*) = nullptr;
  Result (*image_size)(Program, std::size_t*) = nullptr;
  Result (*image)(Program, char*) = nullptr;
  Result (*destroy)(Program*) = nullptr;
};

std::string toolkit() {
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* path = std::getenv(variable);
    if (path != nullptr && *path != '\0') return path;
  }
  return "/usr/local/cuda";
}

void* open_library() {
  for (const std::string& name :
       {std::string("libnvrtc.so.13"), std::string("libnvrtc.so.12"), std::string("libnvrtc.so"),
        toolkit() + "/lib64/libnvrtc.so", toolkit() + "/lib/libnvrtc.so"}) {
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
  }
  return nullptr;
}

template <class F>
void find(Library& library, void* handle, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(handle, name));
  if (function == nullptr && library.problem.empty())
    library.problem = fmt::format("libnvrtc.so has no {}; NVRTC of CUDA 12 or newer is needed", name);
}

Library make_library() {
  Library found;
  void* handle = open_library();
  if (handle == nullptr) {
    found.problem =
        "libnvrtc.so was not found; install CUDA's run-time compiler (cuda-nvrtc), or set CUDA_HOME "
        "to the toolkit";
    return found;
  }
  find(found, handle, "nvrtcVersion", found.version);
  find(found, handle, "nvrtcGetErrorString", found.error_string);
  find(found, handle, "nvrtcCreateProgram", found.create);
  find(found, handle, "nvrtcCompileProgram", found.compile);
  find(found, handle, "nvrtcGetProgramLogSize", found.log_size);
  find(found, handle, "nvrtcGetProgramLog", found.log);
  find(found, handle, "nvrtcGetCUBINSize", found.image_size);
  find(found, handle, "nvrtcGetCUBIN", found.image);
  find(found, handle, "nvrtcDestroyProgram", found.destroy);
  return found;
}

const Library& library() {
  static const Library found = make_library();
  return found;
}

const Library& library_for(const std::string& function) {
  INGOT_CHECK(library().problem.empty(), KernelError(function, "cannot be compiled: " + library().problem));
  return library();
}

void check(Result result, const std::string& function, const char* what) {
  INGOT_CHECK(result == 0,
              KernelError(function, fmt::format("{} failed: {}", what, library().error_string(result))));
}

class OwnedProgram {
 public:
  OwnedProgram(const std::string& source, const std::string& function) {
    const std::string name = function + ".cu";
    check(library().create(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr), function,
          "giving the source to NVRTC");
  }
  ~OwnedProgram() { library().destroy(&program_); }
  OwnedProgram(const OwnedProgram&) = delete;
  OwnedProgram& operator=(const OwnedProgram&) = delete;
  Program get() const { return program_; }

  std::string log() const {
    std::size_t size = 0;
    if (library().log_size(program_, &size) != 0 || size <= 1) return "(no messages)";
    std::string text(size, '\0');
    library().log(program_, text.data());
    text.resize(size - 1);  // the zero at the end is counted
    return text;
  }

 private:
  Program program_ = nullptr;
};

}  // namespace

std::string problem() { return library().problem; }

std::string version() {
  int major = 0, minor = 0;
  check(library_for("NVRTC").version(&major, &minor), "NVRTC", "asking for the version");
  return fmt::format("NVRTC {}.{}", major, minor);
}

std::string compile(std::string_view source, const std::string& function, const std::string& architecture) {
  const Library& nvrtc = library_for(function);
  const OwnedProgram program(std::string(source), function);
  std::vector<std::string> options = {"--gpu-architecture=" + architecture, "--std=c++20"};
  std::error_code ignored;
  if (const std::string include = toolkit() + "/include"; std::filesystem::exists(include, ignored))
    options.push_back("--include-path=" + include);  // cuda_fp16.h and its kin
  std::vector<const char*> words;
  words.reserve(options.size());
  for (const std::string& option : options) words.push_back(option.c_str());
  INGOT_CHECK(
      nvrtc.compile(program.get(), static_cast<int>(words.size()), words.data()) == 0,
      KernelError(function, fmt::format("does not compile for {}:\n{}", architecture, program.log())));
  std::size_t size = 0;
  check(nvrtc.image_size(program.get(), &size), function, "asking for the size of the code");
  std::string image(size, '\0');
  check(nvrtc.image(program.get(), image.data()), function, "asking for the code");
  return image;
}

}  // namespace ingot::kernels::cuda::nvrtc

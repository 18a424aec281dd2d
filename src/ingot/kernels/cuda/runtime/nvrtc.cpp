#include "ingot/kernels/cuda/runtime/nvrtc.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/printable.h"
#include "ingot/base/shared_library.h"

namespace ingot::kernels::cuda::nvrtc {
namespace {

// The library's functions as its C interface has them; declared here, so that no toolkit is needed to build.
using Result = int;
using Program = void*;

struct Library {
  std::string problem, folder;  // folder: where it lies
  Result (*version)(int* major, int* minor) = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*architectures)(int* count) = nullptr;
  Result (*architecture_list)(int* capabilities) = nullptr;
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
  // Environment: CUDA_HOME, CUDA_PATH | where the CUDA toolkit is (`/usr/local/cuda`)
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* path = std::getenv(variable);
    if (path != nullptr && *path != '\0') return path;
  }
  return "/usr/local/cuda";
}

Library make_library() {
  const std::array<std::string, 5> names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                         toolkit() + "/lib64/libnvrtc.so", toolkit() + "/lib/libnvrtc.so"};
  SharedLibrary library(names);
  Library found;
  found.folder = library.folder();
  library.find(found.version, "nvrtcVersion");
  library.find(found.error_string, "nvrtcGetErrorString");
  library.find(found.architectures, "nvrtcGetNumSupportedArchs");
  library.find(found.architecture_list, "nvrtcGetSupportedArchs");
  library.find(found.create, "nvrtcCreateProgram");
  library.find(found.compile, "nvrtcCompileProgram");
  library.find(found.log_size, "nvrtcGetProgramLogSize");
  library.find(found.log, "nvrtcGetProgramLog");
  library.find(found.image_size, "nvrtcGetCUBINSize");
  library.find(found.image, "nvrtcGetCUBIN");
  library.find(found.destroy, "nvrtcDestroyProgram");
  if (!library.problem().empty()) {
    found.problem =
        library.problem() +
        "; install the run-time compiler of CUDA 12 or newer (cuda-nvrtc), or set CUDA_HOME to the toolkit";
  }
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

// Where cuda_fp16.h and its kin may be: the toolkit, and NVIDIA's Python vectorages beside the library.
std::vector<std::string> header_folders() {
  std::vector<std::string> found;
  for (const std::string& folder : {toolkit() + "/include", library().folder + "/../include",
                                    library().folder + "/../../cuda_runtime/include"}) {
    std::error_code ignored;
    if (std::filesystem::exists(folder + "/cuda_fp16.h", ignored)) found.push_back(folder);
  }
  return found;
}

}  // namespace

std::string problem() { return library().problem; }

std::string version() {
  int major = 0, minor = 0;
  check(library_for("NVRTC").version(&major, &minor), "NVRTC", "asking for the version");
  return fmt::format("NVRTC {}.{}", major, minor);
}

bool knows(int capability) {
  if (!library().problem.empty()) return false;
  int count = 0;
  if (library().architectures(&count) != 0 || count <= 0) return false;
  std::vector<int> known(static_cast<std::size_t>(count));
  return library().architecture_list(known.data()) == 0 &&
         std::ranges::find(known, capability) != known.end();
}

std::string trial(const std::string& architecture) {
  try {
    compile("extern \"C\" __global__ void trial(float* x) { *x = expf(*x); }", "trial", architecture);
  } catch (const KernelError& error) {
    return error.what();
  }
  return "";
}

namespace {

/// The compiler's lines, below ours.
std::string indented(const std::string& lines) {
  std::string text = "\n  ";
  for (const char c : lines) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return text;
}

}  // namespace

std::string compile(std::string_view source, const std::string& function, const std::string& architecture) {
  const Library& nvrtc = library_for(function);
  const OwnedProgram program(std::string(source), function);
  std::vector<std::string> options = {"--gpu-architecture=" + architecture, "--std=c++20"};
  for (const std::string& folder : header_folders()) options.push_back("--include-path=" + folder);
  std::vector<const char*> words;
  words.reserve(options.size());
  for (const std::string& option : options) words.push_back(option.c_str());
  INGOT_CHECK(nvrtc.compile(program.get(), static_cast<int>(words.size()), words.data()) == 0,
              in_lines(KernelError(function, fmt::format("does not compile for {}:{}", architecture,
                                                         indented(program.log())))));
  std::size_t size = 0;
  check(nvrtc.image_size(program.get(), &size), function, "asking for the size of the code");
  std::string image(size, '\0');
  check(nvrtc.image(program.get(), image.data()), function, "asking for the code");
  return image;
}

}  // namespace ingot::kernels::cuda::nvrtc

// llama.cpp's importance matrices, as GGUF and in the older format.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/temporary_files.h"

#include "ingot/base/error.h"
#include "ingot/weights/importance_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ingot::test::FuzzDirectory kDirectory;
  kDirectory.write("imatrix.dat", {reinterpret_cast<const char*>(data), size});
  try {
    const auto matrix = ingot::read_importance_matrix(kDirectory.path() + "/imatrix.dat");
    for (const auto& [name, entry] : matrix.entries) {
      [[maybe_unused]] const auto means = entry.means();
      [[maybe_unused]] const auto* found = matrix.find(name);
    }
  } catch (const ingot::Error&) {
  }
  return 0;
}

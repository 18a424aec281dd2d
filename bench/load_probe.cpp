// load_probe MODEL [--dtype DTYPE] [--mapped]: loads a language model and prints what that took, for
// tools/compare/load_memory.py: seconds, bytes of the model, of its largest tensor, and by how much the
// process grew.
#include <algorithm>
#include <chrono>
#include <string>

#include "tests/support/peak_memory.h"
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/dtype.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/visit.h"
#include "ingot/runtime/initialize.h"

int main(int argc, char** argv) {
  using namespace ingot;
  try {
    initialize();
    LoadOptions options;
    for (int i = 2; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--dtype" && i + 1 < argc) options.dtype = parse_dtype(argv[++i]);
      if (argument == "--mapped") options.copy = options.trainable = false;
    }
    INGOT_CHECK(argc > 1, Error("load_probe MODEL [--dtype DTYPE] [--mapped]"));
    const test::PeakMemory peak;
    const auto start = std::chrono::steady_clock::now();
    const auto model = load_language_model(argv[1], options);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::size_t all = 0, largest = 0;
    for (const auto& [name, parameter] : named_parameters(*model)) {
      all += parameter->value.nbytes();
      largest = std::max(largest, parameter->value.nbytes());
    }
    fmt::print("{} {} {} {}\n", seconds.count(), all, largest, peak.growth().value_or(-1));
  } catch (const std::exception& error) {
    fmt::print(stderr, "load_probe: {}\n", error.what());
    return 1;
  }
}

// The config.json of a model, as far as the shapes that its weights are to have.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/temporary_files.h"

#include "ingot/base/error.h"
#include "ingot/models/registry.h"
#include "ingot/weights/blob.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/weight_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ingot::test::FuzzDirectory kDirectory;
  kDirectory.write("config.json", {reinterpret_cast<const char*>(data), size});
  const auto bytes = std::as_bytes(std::span("\2\0\0\0\0\0\0\0{}", 10));  // no tensor at all
  try {
    const std::shared_ptr<const ingot::WeightSource> weights =
        ingot::open_safetensors(ingot::memory_blob("input", {bytes.begin(), bytes.end()}));
    [[maybe_unused]] const auto report = ingot::check_model(kDirectory.path(), weights);
  } catch (const ingot::Error&) {
  }
  try {
    [[maybe_unused]] const auto text = ingot::describe_model(kDirectory.path());
  } catch (const ingot::Error&) {
  }
  return 0;
}

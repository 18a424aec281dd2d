// What a model's files say about generating text: config.json, a record separator, generation_config.json.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/temporary_files.h"

#include "ingot/base/error.h"
#include "ingot/infer/generation_config.h"
#include "ingot/runtime/initialize.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const bool kReady = (ingot::initialize(), true);
  static const ingot::test::FuzzDirectory kDirectory;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view config = all.substr(0, all.find('\x1E'));
  kDirectory.write("config.json", config);
  kDirectory.write("generation_config.json", all.substr(std::min(size, config.size() + 1)));
  try {
    ingot::infer::TextOptions options;
    ingot::infer::GenerationConfig::of_model(kDirectory.path()).apply(options);
    options.sampling.validate();
    ingot::Sampler sampler(options.sampling);
    const std::vector<float> logits{0.0F, 1.0F, 2.0F, 0.5F};
    const std::vector<std::int32_t> history{1, 2, 1, 2};
    static_cast<void>(sampler(logits, history, 2, nullptr));
  } catch (const ingot::Error&) {
  }
  return 0;
}

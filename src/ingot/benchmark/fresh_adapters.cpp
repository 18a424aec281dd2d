#include "ingot/benchmark/fresh_adapters.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "ingot/base/error.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/nn/param_source.h"

namespace ingot::benchmark {
namespace {

// A directory that goes with the object.
class ScratchDirectory {
 public:
  ScratchDirectory() : path_((std::filesystem::temp_directory_path() / "ingot-adapter-XXXXXX").string()) {
    INGOT_CHECK(mkdtemp(path_.data()) != nullptr, IoError(path_, "cannot be made"));
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::shared_ptr<AdapterBank> fresh_adapters(LanguageModel& model, std::int64_t count, std::int64_t rank) {
  const WeightMap map = LanguageModel::weight_map(model.config);
  LoraConfig config{.r = rank, .lora_alpha = 2 * static_cast<double>(rank)};
  config.target_modules = {"all-linear"};
  InitSource source(/*seed=*/2, DType::f32, model.device());
  const ScratchDirectory directory;
  add_lora({model, map}, config, source, "fresh");
  write_peft_adapter(directory.path(), {model, map}, config, "fresh");
  remove_adapter(model, "fresh");
  auto bank = std::make_shared<AdapterBank>(model);
  for (std::int64_t i = 0; i < count; ++i)
    bank->load({.name = std::to_string(i), .path = directory.path()}, std::to_string(i));
  return bank;
}

}  // namespace ingot::benchmark

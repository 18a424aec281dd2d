// The index of a model in several files, beside two good shards and a damaged one.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "tests/fuzz/temporary_files.h"

#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot::test {
namespace {

class ShardDirectory {
 public:
  ShardDirectory() {
    using Tensors = std::map<std::string, Tensor>;
    write_safetensors(path() + "/a.safetensors",
                      Tensors{{"weight", Tensor::zeros({2, 3})}, {"bias", Tensor::zeros({3})}});
    write_safetensors(path() + "/b.safetensors", Tensors{{"weight", Tensor::zeros({4})}});
    directory_.write("cut.safetensors", "\x40");
  }
  std::string path() const { return directory_.path(); }
  const FuzzDirectory& files() const { return directory_; }

 private:
  FuzzDirectory directory_;
};

}  // namespace
}  // namespace ingot::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ingot::test::ShardDirectory kDirectory;
  kDirectory.files().write("model.safetensors.index.json", {reinterpret_cast<const char*>(data), size});
  try {
    const auto weights = ingot::open_weights(kDirectory.path());
    for (const ingot::TensorInfo& info : weights->tensors())
      [[maybe_unused]] const auto tensor = weights->load_tensor(info.name);
  } catch (const ingot::Error&) {
  }
  return 0;
}

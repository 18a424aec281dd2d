#include "tests/emulated_gpu/memory.h"

#include "tests/infer/small_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/infer/load.h"

namespace ingot::infer {
namespace {

namespace emulation = kernels::cuda::emulation;

TEST(DeviceMemory, IsCountedBeforeAModelIsLoaded) {
  const test::TemporaryDirectory directory;
  const std::string path = test::write_small_model(directory.at("model"), "llama");
  backend({DeviceType::cuda, 0}).trim();  // what is cached counts as free
  const std::size_t whole = emulation::device_memory();
  const std::size_t used = whole - emulation::free_memory();
  emulation::set_device_memory(used + 100'000);  // the weights take 0.5 MB in f32
  try {
    load_model(path, "", {.where = "off"}, {DeviceType::cuda, 0});
    ADD_FAILURE() << "a model was loaded that does not fit";
  } catch (const OutOfMemory& error) {
    EXPECT_GT(error.requested, 400'000U);
    const std::string message = error.what();
    for (const char* part : {"model", "cuda:0", "free", "q4_k", "device cpu"})
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
  }
  emulation::set_device_memory(whole);
  EXPECT_NE(load_model(path, "", {.where = "off"}, {DeviceType::cuda, 0}), nullptr);
}

}  // namespace
}  // namespace ingot::infer

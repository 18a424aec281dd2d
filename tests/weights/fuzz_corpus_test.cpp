#include <filesystem>

#include "tests/fuzz/weights_target.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/hdf5.h"
#include "ingot/weights/npy.h"
#include "ingot/weights/npz.h"
#include "ingot/weights/onnx.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/torch.h"

namespace ingot {
namespace {

// Names say what must come of a file: good* opens, all else is refused.
void replay(const std::string& format, std::unique_ptr<WeightSource> (*open)(Blob)) {
  int good = 0, bad = 0;
  const std::string corpus = test::source_dir() + "/tests/fuzz/corpus/" + format;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    const std::string content = read_file(entry.path().string());
    const auto bytes = std::as_bytes(std::span(content));
    const bool opened = test::read_all_weights(open, {bytes.begin(), bytes.end()});
    EXPECT_EQ(opened, entry.path().filename().string().starts_with("good")) << entry.path();
    ++(opened ? good : bad);
  }
  EXPECT_GT(good, 0);
  EXPECT_GT(bad, 0);
}

TEST(FuzzCorpus, SafetensorsFilesAreReadOrRefused) { replay("safetensors", open_safetensors); }
TEST(FuzzCorpus, NpyFilesAreReadOrRefused) { replay("npy", open_npy); }
TEST(FuzzCorpus, OnnxFilesAreReadOrRefused) { replay("onnx", open_onnx); }
TEST(FuzzCorpus, GgufFilesAreReadOrRefused) {
  replay("gguf", [](Blob blob) -> std::unique_ptr<WeightSource> { return open_gguf(std::move(blob)); });
}

TEST(FuzzCorpus, TorchFilesAreReadOrRefused) { replay("torch", open_torch); }
TEST(FuzzCorpus, NpzFilesAreReadOrRefused) { replay("npz", open_npz); }

TEST(FuzzCorpus, Hdf5FilesAreReadOrRefused) { replay("hdf5", open_hdf5); }

}  // namespace
}  // namespace ingot

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include "tests/support/sentence_directory.h"
#include <gtest/gtest.h>

#include "ingot/infer/sentence_embedder.h"

// Sentence embeddings on a CUDA device, emulated or not, against those of the CPU.
namespace ingot {
namespace {

using test::kDevice;

const std::vector<std::vector<std::int32_t>> kTexts{
    {2, 7, 9, 3}, {2, 50, 3}, {2, 11, 12, 13, 14, 15, 16, 17, 18, 3}, {2, 7, 9, 3}};

Tensor vectors(const std::string& directory, const std::string& format, Device device) {
  const SentenceEmbedder embedder = SentenceEmbedder::open(directory, encoder_options(format, device));
  return embedder.embed_ids(kTexts);
}

TEST(DeviceSentences, HaveTheVectorsOfTheCpu) {
  const test::SentenceDirectory directory;
  // Sums of another order in f32; halves round each activation to 11 or 8 bits.
  for (const auto& [format, tolerance] :
       {std::pair<std::string, double>{"", 1e-5}, {"f32", 1e-5}, {"f16", 4e-3}, {"bf16", 3e-2}}) {
    const Tensor expected = vectors(directory.path, format, kCpu);
    const Tensor actual = vectors(directory.path, format, kDevice);
    EXPECT_EQ(actual.device(), kCpu);
    EXPECT_LT(testing::max_error(actual, expected), tolerance) << format;
  }
}

}  // namespace
}  // namespace ingot

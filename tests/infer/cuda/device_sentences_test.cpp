#include <string>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/infer/sentence_embedder.h"

// Sentence embeddings on a CUDA device, emulated or not, against those of the CPU.
namespace ingot {
namespace {

using test::kDevice;

// A BERT of random weights with its words, which are w5 to w66.
void write_encoder(const std::string& directory) {
  InitSource source(1);
  BertModel model({.vocab_size = 67,
                   .hidden_size = 32,
                   .intermediate_size = 64,
                   .num_hidden_layers = 2,
                   .num_attention_heads = 4,
                   .max_position_embeddings = 64},
                  source);
  write_bert(directory, model);
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 5; i < 67; ++i) vocabulary += "w" + std::to_string(i) + "\n";
  write_file_atomically(directory + "/vocab.txt", vocabulary);
  write_file_atomically(directory + "/tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
}

TEST(DeviceSentences, HaveTheVectorsOfTheCpu) {
  const test::TemporaryDirectory directory;
  write_encoder(directory.path());
  const std::vector<std::string_view> texts{"w7 w9", "w50", "w11 w12 w13 w14 w15 w16 w17 w18", "w7 w9"};
  const auto vectors = [&](const std::string& format, Device device) {
    const auto embedder = SentenceEmbedder::open(directory.path(), encoder_options(format, device));
    EXPECT_EQ(embedder.encoder().device(), device);
    return embedder.embed(texts);
  };
  // Sums in another order in f32; fp16 and bf16 round what comes between to 11 or 8 bits, and int8 matmuls
  // what they read to 8, where a number between two steps may go to either.
  for (const auto& [format, tolerance] : {std::pair<std::string, double>{"", 1e-5},
                                          {"f32", 1e-5},
                                          {"f16", 1e-3},
                                          {"bf16", 8e-3},
                                          {"q8_0", 1e-3},
                                          {"int8", 1e-3},
                                          {"w8a8", 1e-3}}) {
    const Tensor expected = vectors(format, kCpu), actual = vectors(format, kDevice);
    EXPECT_EQ(actual.device(), kCpu);
    EXPECT_LT(testing::max_error(actual, expected), tolerance) << format;
  }
}

}  // namespace
}  // namespace ingot

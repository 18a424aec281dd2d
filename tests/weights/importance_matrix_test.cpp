#include "ingot/weights/importance_matrix.h"

#include <cstring>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/gguf.h"

namespace ingot {
namespace {

using test::message_of;
using test::TemporaryDirectory;

ImportanceMatrix small_matrix() {
  return {.entries = {{"blk.0.attn_q.weight", {{2, 4, 8, 16}, {2}}},
                      {"blk.0.ffn_up_exps.weight", {{1, 2, 0, 0, 9, 12}, {1, 0, 3}}}},
          .datasets = {"book.txt"},
          .chunks = 7,
          .chunk_tokens = 512};
}

TEST(ImportanceMatrix, KeepsEverythingInAGgufFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.at("imatrix.gguf");
  write_importance_matrix(path, small_matrix());
  const ImportanceMatrix found = read_importance_matrix(path);
  ASSERT_EQ(found.entries.size(), 2U);
  const auto& experts = found.entries.at("blk.0.ffn_up_exps.weight");
  EXPECT_EQ(experts.sums, (std::vector<float>{1, 2, 0, 0, 9, 12}));
  EXPECT_EQ(experts.counts, (std::vector<float>{1, 0, 3}));
  EXPECT_EQ(found.datasets, std::vector<std::string>{"book.txt"});
  EXPECT_EQ(found.chunks, 7U);
  EXPECT_EQ(found.chunk_tokens, 512U);
  // As llama.cpp lays them out: columns innermost.
  const auto file = open_gguf(path);
  EXPECT_EQ(file->get_metadata("blk.0.ffn_up_exps.weight.in_sum2").shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(file->get_metadata("blk.0.ffn_up_exps.weight.counts").shape, (std::vector<std::int64_t>{3, 1}));
}

TEST(ImportanceMatrix, KeepsMeansInTheOlderForm) {
  const TemporaryDirectory directory;
  const std::string path = directory.at("imatrix.dat");
  write_importance_matrix(path, small_matrix());
  const ImportanceMatrix found = read_importance_matrix(path);
  EXPECT_EQ(found.entries.at("blk.0.attn_q.weight").means(), (std::vector<float>{1, 2, 4, 8}));
  // An expert without rows has ones; the older format has one count for all experts.
  EXPECT_EQ(found.entries.at("blk.0.ffn_up_exps.weight").means(), (std::vector<float>{1, 2, 1, 1, 3, 4}));
  EXPECT_EQ(found.chunks, 7U);
  EXPECT_EQ(found.datasets, std::vector<std::string>{"book.txt"});
}

TEST(ImportanceMatrix, FindsAMatrixThatSharesItsInput) {
  const ImportanceMatrix matrix = small_matrix();
  EXPECT_EQ(matrix.find("blk.0.attn_qkv.weight"), &matrix.entries.at("blk.0.attn_q.weight"));
  EXPECT_EQ(matrix.find("blk.1.attn_q.weight"), nullptr);
}

TEST(ImportanceMatrix, RefusesDamageAndOtherFilesByName) {
  const TemporaryDirectory directory;
  const std::string path = directory.at("imatrix.dat");
  write_importance_matrix(path, small_matrix());
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // Files of the oldest format end before the number of chunks, some after it.
    if (size == whole.size() - 16 || size == whole.size() - 12) continue;
    write_file_atomically(path, std::string_view(whole).substr(0, size));
    EXPECT_NE(message_of<FormatError>([&] { read_importance_matrix(path); }).find("imatrix.dat"),
              std::string::npos)
        << size;
  }
  ImportanceMatrix negative = small_matrix();
  negative.entries.at("blk.0.attn_q.weight").sums[1] = -1;
  write_importance_matrix(directory.at("negative.gguf"), negative);
  const std::string message =
      message_of<FormatError>([&] { read_importance_matrix(directory.at("negative.gguf")); });
  EXPECT_NE(message.find("blk.0.attn_q.weight"), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot

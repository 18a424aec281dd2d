#include "ingot/weights/npz.h"

#include <cstring>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/weights/helpers.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/open.h"
#include "ingot/weights/zip.h"

namespace ingot {
namespace {

using test::bytes_of;
using test::kGoldens;

using test::message_of;
using test::TemporaryDirectory;

TEST(Npz, ReadsWhatNumPyWroteStoredAndCompressed) {
  for (const char* file : {"arrays.npz", "compressed.npz"}) {
    const auto source = open_weights(kGoldens + file);
    EXPECT_EQ(source->format(), "npz");
    EXPECT_EQ(source->load_tensor("a").to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(source->load_tensor("layer/b").to_vector<std::int64_t>(),
              (std::vector<std::int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(source->load_tensor("c").to_vector<double>(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(source->load_tensor("scalar").item(), 2.5);
  }
  EXPECT_EQ(open_weights(kGoldens + "compressed.npz")->load_tensor("zeros").shape(), Shape({100, 100}));
}

TEST(Npz, WhatIsWrittenOpensAgain) {
  TemporaryDirectory directory;
  const auto source = open_weights(kGoldens + "arrays.npz");
  std::vector<StoredTensor> tensors;
  for (const TensorInfo& info : source->tensors()) {
    tensors.push_back(StoredTensor::of(info.name, source->load_tensor(info.name)));
  }
  write_npz(directory.at("a.npz"), tensors);
  const auto again = open_weights(directory.at("a.npz"));
  ASSERT_EQ(again->tensors().size(), 4U);
  EXPECT_EQ(again->load_tensor("c").to_vector<double>(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  const ZipArchive archive(map_blob(directory.at("a.npz")));
  for (const ZipEntry& entry : archive.entries()) archive.content(entry);
  EXPECT_THROW(
      write_npz(directory.at("b.npz"), std::vector{StoredTensor::of("x", Tensor::empty({1}, DType::bf16))}),
      IoError);
  EXPECT_THROW(write_npz(directory.at("b.npz"), std::vector{tensors[0], tensors[0]}), InvalidConfig);
  EXPECT_FALSE(std::filesystem::exists(directory.at("b.npz")));
}

TEST(Zip, CutAnywhereAnArchiveIsRefused) {
  const std::string whole = read_file(kGoldens + "arrays.npz");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(ZipArchive(memory_blob("x", bytes_of(whole.substr(0, size)))), FormatError) << size;
  }
}

TEST(Zip, DamagedContentFailsItsCrc) {
  std::string stored = read_file(kGoldens + "arrays.npz"),
              compressed = read_file(kGoldens + "compressed.npz");
  const ZipArchive archive(memory_blob("x", bytes_of(stored)));
  stored[archive.find("a.npy")->offset + 130] ^= 1;
  const ZipArchive broken(memory_blob("x", bytes_of(stored)));
  EXPECT_NE(
      message_of<FormatError>([&] { broken.content(*broken.find("a.npy")); }).find("do not have the CRC"),
      std::string::npos);
  const ZipArchive small(memory_blob("x", bytes_of(compressed)));
  compressed[small.find("a.npy")->offset + 60] ^= 1;
  const ZipArchive damaged(memory_blob("x", bytes_of(compressed)));
  EXPECT_THROW(damaged.content(*damaged.find("a.npy")), FormatError);
}

TEST(Zip, SizesThatCannotBeAreRefused) {
  std::string text = read_file(kGoldens + "compressed.npz");
  const std::size_t directory = text.rfind("PK\x01\x02");
  const auto says = [&](std::size_t at, std::uint32_t value, const char* part) {
    std::string changed = text;
    std::memcpy(changed.data() + directory + at, &value, 4);
    const std::string message =
        message_of<FormatError>([&] { ZipArchive(memory_blob("x", bytes_of(changed))); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(24, 0x70000000, "which cannot be");  // uncompressed size: a bomb
  says(20, 0x70000000, "but only");         // compressed size
  says(42, 0, "overlap");                   // the offset of another entry
  says(42, 0x70000000, "leads to byte");
}

}  // namespace
}  // namespace ingot

#include "ingot/weights/blob.h"

#include <numeric>
#include <thread>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"

namespace ingot {
namespace {

using test::TemporaryDirectory;

// A mapped file of the numbers 0, 1, 2, ...
class MappedBlob : public ::testing::Test {
 protected:
  MappedBlob() {
    std::vector<std::int32_t> values(kCount);
    std::iota(values.begin(), values.end(), 0);
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    write_file_atomically(directory_.at("numbers"), bytes);
    blob_ = map_blob(directory_.at("numbers"));
  }
  Tensor numbers(std::int64_t first, std::int64_t count) const {
    return tensor_in(blob_, static_cast<std::size_t>(first) * 4, {count}, DType::i32);
  }

  static constexpr std::int64_t kCount = 100'000;  // about a hundred pages
  TemporaryDirectory directory_;
  Blob blob_;
};

TEST_F(MappedBlob, WhatIsWrittenStaysAsLongAsAnyTensorOfThosePages) {
  Tensor all = numbers(0, kCount);
  {
    const Tensor part = numbers(50'000, 10);
    part.data<std::int32_t>()[3] = -1;
  }
  EXPECT_EQ(all.data<std::int32_t>()[50'003], -1);
  all = {};
  EXPECT_EQ(numbers(50'000, 10).data<std::int32_t>()[3], 50'003);  // the file's again
}

TEST_F(MappedBlob, NeighboursOnOnePageDoNotDisturbEachOther) {
  const Tensor kept = numbers(1000, 24);
  kept.data<std::int32_t>()[0] = -7;
  kept.data<std::int32_t>()[23] = -8;
  for (const std::int64_t first : {0, 990, 1024, 1500}) {
    const Tensor gone = numbers(first, first < 1000 ? 1000 - first : 5000);
    gone.data<std::int32_t>()[0] = -9;
  }
  EXPECT_EQ(kept.data<std::int32_t>()[0], -7);
  EXPECT_EQ(kept.data<std::int32_t>()[23], -8);
}

TEST_F(MappedBlob, APartOfThePartKeepsAllOfItBorrowed) {
  const Blob part = on_loan(part_of(blob_, 4000, 40'000));
  const Blob inner = part_of(part, 8, 16);
  Tensor x = tensor_in(inner, 4, {2}, DType::i32);
  EXPECT_EQ(x.data<std::int32_t>()[0], 1003);
  x.data<std::int32_t>()[0] = -1;
  x = {};
  EXPECT_EQ(*reinterpret_cast<const std::int32_t*>(part.bytes.data() + 12), -1);
}

TEST_F(MappedBlob, ThreadsMayTakeAndDropAtOnce) {
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (std::int64_t i = 0; i < 300; ++i) {
        const std::int64_t first = (i * 797 + t * 13'001) % (kCount - 3000);
        const Tensor x = numbers(first, 3000);
        EXPECT_EQ(x.data<std::int32_t>()[0], static_cast<std::int32_t>(first));
        EXPECT_EQ(x.data<std::int32_t>()[2999], static_cast<std::int32_t>(first + 2999));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(MappedBlob, OutlivesItsNameAndHasAnEmptyEnd) {
  const Tensor x = numbers(7, 1);
  EXPECT_EQ(numbers(kCount, 0).numel(), 0);
  will_need(blob_, 0, blob_.bytes.size());
  blob_ = {};
  EXPECT_EQ(x.data<std::int32_t>()[0], 7);
}

}  // namespace
}  // namespace ingot

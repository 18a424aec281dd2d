#include "ingot/weights/raw.h"

#include <cstring>
#include <numeric>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using test::message_of;

// 0, 1, 2, ... as f32.
Blob numbers(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  std::vector<std::byte> bytes(count * sizeof(float));
  if (count > 0) std::memcpy(bytes.data(), values.data(), bytes.size());
  return memory_blob("dir/values.bin", std::move(bytes));
}

std::unique_ptr<WeightSource> open(Blob blob, const std::vector<std::string>& layout) {
  return open_raw(std::move(blob), parse_raw_tensors(layout));
}

TEST(Raw, ShapeAndTypeMakeATensorOfAFileWithoutAHeader) {
  const auto source = open(numbers(6), {"f32[2,3]"});
  EXPECT_EQ(source->format(), "raw");
  const Tensor tensor = source->load_tensor("values");
  EXPECT_EQ(tensor.shape(), Shape({2, 3}));
  EXPECT_EQ(tensor.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(open(numbers(1), {"float32[]"})->load_tensor("values").item(), 0.0);
  EXPECT_EQ(open(numbers(0), {"f32[0,4]"})->load_tensor("values").shape(), Shape({0, 4}));
}

TEST(Raw, AnOpenAxisTakesTheRestOfTheFile) {
  const auto source = open(numbers(8), {"head=i8[4]", "rest=f32[-1,1]", "tail=f32[2]@24"});
  EXPECT_EQ(source->get_metadata("rest").shape, (std::vector<std::int64_t>{7, 1}));
  EXPECT_EQ(source->load_tensor("tail").to_vector<float>(), (std::vector<float>{6, 7}));
}

TEST(Raw, TensorsFollowEachOtherOrStandWhereTheirOffsetSays) {
  const auto source = open(numbers(8), {"a=f32[2]", "b=f32[3]", "c=f32[1]@16"});
  EXPECT_EQ(source->load_tensor("a").to_vector<float>(), (std::vector<float>{0, 1}));
  EXPECT_EQ(source->load_tensor("b").to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(source->load_tensor("c").to_vector<float>(), std::vector<float>{4});
  // Off the alignment of its type a tensor is a copy.
  EXPECT_EQ(open(numbers(2), {"i32[1]@3"})->load_tensor("values").numel(), 1);
}

TEST(Raw, WhatDoesNotFitTheFileIsSaidWithBothSizes) {
  const auto refused = [](const std::string& spec) {
    return message_of<FormatError>([&] { open(numbers(6), {spec}); });
  };
  EXPECT_NE(refused("f32[2,4]").find("takes 32 bytes from byte 0 on, but the file has 24"),
            std::string::npos);
  EXPECT_NE(refused("f32[5]").find("ends here, but the file has 24"), std::string::npos);
  EXPECT_NE(refused("f32[-1,5]").find("takes a multiple of 20 bytes"), std::string::npos);
  EXPECT_NE(refused("f32[-1,0]").find("takes a multiple of 0 bytes"), std::string::npos);
  EXPECT_NE(refused("f32[1]@25").find("begins at byte 25"), std::string::npos);
  EXPECT_NE(refused("f32[9223372036854775807,9223372036854775807]").find("can be counted"),
            std::string::npos);
  EXPECT_NE(message_of<InvalidConfig>([] {
              open(numbers(2), {"f32[1]", "f32[1]"});
            }).find("'values'"),
            std::string::npos);
  EXPECT_NE(message_of<FormatError>([] {
              open(numbers(2), {"bool[8]"})->load_tensor("values");
            }).find("other than 0 and 1"),
            std::string::npos);
}

TEST(Raw, ADescriptionThatCannotBeReadIsExplained) {
  for (const char* spec : {"", "f32", "f32]2[", "f32[2", "f32[2,]", "f32[a]", "f32[-2]", "f32[-1,-1]",
                           "f32[2]x", "f32[2]@", "f32[2]@-1", "f33[2]", "[2]", "f32[99999999999999999999]"}) {
    EXPECT_THROW(RawTensor::parse(spec), InvalidConfig) << spec;
  }
  EXPECT_NE(message_of<InvalidConfig>([] { RawTensor::parse("f32"); }).find("weight=bf16[-1,768]@128"),
            std::string::npos);
  const RawTensor tensor = RawTensor::parse("a=b=BF16[2,-1]@7");
  EXPECT_EQ(tensor.name, "a=b");
  EXPECT_EQ(tensor.dtype, DType::bf16);
  EXPECT_EQ(tensor.offset, 7U);
}

}  // namespace
}  // namespace ingot

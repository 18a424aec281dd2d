#include "ingot/weights/transform.h"

#include <algorithm>
#include <numeric>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/weights/helpers.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/quant/block_format.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/gguf.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using test::message_of;
using test::TemporaryDirectory;
using Steps = std::vector<Transform>;

class Transforms : public ::testing::Test {
 protected:
  std::shared_ptr<const WeightSource> source() {
    write_safetensors(directory_.at("a.safetensors"),
                      std::vector{StoredTensor::of("a", Tensor::from(test::counted<float>(6), {2, 3})),
                                  StoredTensor::of("b", Tensor::from(test::counted<float>(3), {1, 3})),
                                  StoredTensor::of("heads", Tensor::from(test::counted<float>(8), {8, 1})),
                                  StoredTensor::of("wide", Tensor::from(test::counted<float>(64), {2, 32})),
                                  StoredTensor::of("ids", Tensor::from<std::int64_t>({1, 2}, {2}))});
    return open_safetensors(directory_.at("a.safetensors"));
  }
  /// The result and that its description says what it is.
  Tensor made(const std::vector<std::string>& inputs, const Steps& steps, int axis = 0) {
    const TransformedSource transformed(source(), {{"x", inputs, steps, axis}});
    const Tensor x = transformed.load_tensor("x");
    const TensorInfo& info = transformed.get_metadata("x");
    EXPECT_EQ(info.shape, x.shape().to_vector());
    EXPECT_EQ(info.dtype, x.dtype());
    EXPECT_TRUE(x.is_contiguous());
    return x;
  }
  std::string refused(const std::vector<std::string>& inputs, const Steps& steps, int axis = 0) {
    return message_of<Error>([&] { TransformedSource(source(), {{"x", inputs, steps, axis}}); });
  }

  TemporaryDirectory directory_;
};

TEST_F(Transforms, EachStepDoesWhatItSays) {
  using F = std::vector<float>;
  EXPECT_EQ(made({"a"}, {Transform::transpose()}).to_vector<float>(), (F{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(made({"a"}, {Transform::permute({1, 0})}).to_vector<float>(), (F{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(made({"a"}, {Transform::reshape({-1, 2})}).shape(), Shape({3, 2}));
  EXPECT_EQ(made({"a"}, {Transform::scale(2, 1)}).to_vector<float>(), (F{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(made({"a"}, {Transform::slice(1, 1, 3)}).to_vector<float>(), (F{1, 2, 4, 5}));
  EXPECT_EQ(made({"a"}, {Transform::part(-1, 2, 3)}).to_vector<float>(), (F{2, 5}));
  EXPECT_EQ(made({"a"}, {Transform::select(1)}).to_vector<float>(), (F{3, 4, 5}));
  EXPECT_EQ(made({"a", "b"}, {}).to_vector<float>(), (F{0, 1, 2, 3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(made({"a"}, {Transform::take(1, {2, 0, 1})}).to_vector<float>(), (F{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(made({"a"}, {Transform::take(0, {1, 0})}).to_vector<float>(), (F{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(made({"a"}, {Transform::scale_rows({2, -1})}).to_vector<float>(), (F{0, 2, 4, -3, -4, -5}));
  EXPECT_NE(refused({"a"}, {Transform::take(1, {2, 0, 3})}).find("has no element 3"), std::string::npos);
  EXPECT_NE(refused({"a"}, {Transform::scale_rows({2})}).find("1 rows"), std::string::npos);
  EXPECT_EQ(made({"a"}, {Transform::cast(DType::bf16)}).dtype(), DType::bf16);
  EXPECT_EQ(made({"a"}, {Transform::transpose(), Transform::part(0, 1, 3), Transform::reshape({2})})
                .to_vector<float>(),
            (F{1, 4}));
}

TEST_F(Transforms, RotaryOrdersAreEachOthersInverse) {
  // Two heads of four rows: llama.cpp's convert_hf_to_gguf.py makes 0 2 1 3 of 0 1 2 3.
  EXPECT_EQ(made({"heads"}, {Transform::rotary_to_pairs(2)}).to_vector<float>(),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  const Tensor back = made({"heads"}, {Transform::rotary_to_pairs(1), Transform::rotary_to_halves(1)});
  EXPECT_EQ(back.to_vector<float>(), test::counted<float>(8));
  EXPECT_EQ(made({"heads"}, {Transform::reshape({8}), Transform::rotary_to_pairs(1)}).to_vector<float>(),
            (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST_F(Transforms, QuantisingGivesBlocksAndTheirRoundedValues) {
  const quant::BlockFormat& q8 = *quant::find_block_format("Q8_0");
  const TransformedSource transformed(source(), {{"x", {"wide"}, {Transform::quantize(q8)}}});
  EXPECT_EQ(transformed.get_metadata("x").stored_as, "Q8_0");
  const Blob blocks = transformed.stored_bytes("x");
  ASSERT_EQ(blocks.bytes.size(), 68U);
  std::vector<float> values(64);
  quant::dequantize(q8, blocks.bytes, values);
  EXPECT_EQ(transformed.load_tensor("x").to_vector<float>(), values);
  EXPECT_NEAR(values[63], 63.0F, 0.3F);
}

TEST_F(Transforms, WhatKeepsRowsWholeKeepsBlocksToo) {
  const std::string path = test::source_dir() + "/tests/weights/goldens/quantized.gguf";
  const std::shared_ptr<const WeightSource> gguf = open_gguf(path);
  const TransformedSource transformed(gguf, {{"swapped", {"q4_k"}, {Transform::rotary_to_pairs(1)}},
                                             {"second", {"q4_k"}, {Transform::slice(0, 1, 2)}},
                                             {"both", {"q4_k", "q4_k"}, {}},
                                             {"turned", {"q4_k"}, {Transform::take(0, {1, 0})}},
                                             {"mixed", {"q4_k", "q6_k"}, {}},
                                             {"transposed", {"q4_k"}, {Transform::transpose()}}});
  EXPECT_EQ(transformed.get_metadata("second").stored_as, "Q4_K");
  const Blob blocks = transformed.stored_bytes("second");
  ASSERT_EQ(blocks.bytes.size(), 144U);
  EXPECT_TRUE(std::ranges::equal(blocks.bytes, gguf->stored_bytes("q4_k").bytes.subspan(144)));
  EXPECT_EQ(transformed.stored_bytes("both").bytes.size(), 4 * 144U);
  EXPECT_TRUE(std::ranges::equal(transformed.stored_bytes("turned").bytes.first(144), blocks.bytes));
  EXPECT_EQ(transformed.get_metadata("mixed").stored_as, "f32");
  EXPECT_EQ(transformed.load_packed("mixed", {}), nullptr);
  EXPECT_EQ(transformed.load_tensor("mixed").shape(), Shape({4, 256}));
  EXPECT_EQ(transformed.get_metadata("transposed").stored_as, "f32");
  EXPECT_EQ(transformed.load_tensor("transposed").shape(), Shape({256, 2}));
}

// A gigabyte is converted in the memory of its largest tensor and what that is made from.
TEST_F(Transforms, AWriterNeedsMemoryForOneTensorAtATime) {
  constexpr std::int64_t kTensors = 16, kElements = 1 << 18;  // a MiB each
  std::vector<StoredTensor> many;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    many.push_back(StoredTensor::of("t" + std::to_string(i), Tensor::zeros({512, kElements / 512})));
  }
  write_safetensors(directory_.at("many.safetensors"), many);
  many.clear();
  const std::shared_ptr<const WeightSource> file = open_safetensors(directory_.at("many.safetensors"));
  std::vector<TensorRecipe> recipes = identity_recipes(*file);
  for (TensorRecipe& recipe : recipes) recipe.steps = {Transform::transpose(), Transform::cast(DType::bf16)};
  const TransformedSource transformed(file, recipes);
  MemoryTracker& memory = backend(kCpu).memory();
  memory.reset_peak();
  const std::size_t before = memory.allocated();
  write_safetensors(directory_.at("out.safetensors"), stored_tensors(transformed));
  EXPECT_LE(memory.peak() - before, 2 * kElements * sizeof(float));
  EXPECT_EQ(memory.allocated(), before);
}

TEST_F(Transforms, SourcesStackOnEachOther) {
  auto first = std::make_shared<TransformedSource>(
      source(), std::vector<TensorRecipe>{{"t", {"a"}, {Transform::transpose()}}});
  const TransformedSource second(first, {{"u", {"t"}, {Transform::part(0, 0, 3)}}});
  EXPECT_EQ(second.load_tensor("u").to_vector<float>(), (std::vector<float>{0, 3}));
  EXPECT_EQ(identity_recipes(*first).size(), 1U);
}

TEST_F(Transforms, WhatCannotBeIsSaidBeforeAnythingLoads) {
  EXPECT_NE(refused({"a"}, {Transform::reshape({4, 2})}).find("x: shape [2, 3] cannot become [4, 2]"),
            std::string::npos);
  EXPECT_NE(refused({"a"}, {Transform::transpose(0, 2)}).find("has no axis 2"), std::string::npos);
  EXPECT_NE(refused({"a"}, {Transform::part(0, 0, 4)}).find("2 elements have no part 0 of 4"),
            std::string::npos);
  EXPECT_NE(refused({"a"}, {Transform::slice(0, 1, 3)}).find("no elements 1 to 3"), std::string::npos);
  EXPECT_NE(refused({"a"}, {Transform::select(2)}).find("has no element 2"), std::string::npos);
  EXPECT_NE(refused({"ids"}, {Transform::scale(2)}).find("i64 cannot be scaled"), std::string::npos);
  EXPECT_NE(refused({"a"}, {Transform::rotary_to_pairs(3)}).find("not a projection to 3 heads"),
            std::string::npos);
  EXPECT_NE(refused({"a"}, {Transform::quantize(*quant::find_block_format("Q8_0"))}).find("not whole blocks"),
            std::string::npos);
  EXPECT_NE(refused({"a", "wide"}, {}).find("wide"), std::string::npos);
  EXPECT_NE(refused({"a", "ids"}, {}).find("differ in type or rank"), std::string::npos);
  EXPECT_NE(refused({"c"}, {}).find("holds no tensor 'c'"), std::string::npos);
  EXPECT_NE(refused({}, {}).find("made from nothing"), std::string::npos);
  EXPECT_THROW(TransformedSource(source(), {{"x", {"a"}, {}}, {"x", {"b"}, {}}}), InvalidConfig);
}

}  // namespace
}  // namespace ingot

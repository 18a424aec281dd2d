#include "ingot/weights/hdf5.h"

#include <cstring>
#include <numeric>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/weights/helpers.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::bytes_of;
using test::counted;
using test::kGoldens;

using test::message_of;

TEST(Hdf5, ReadsAModelAsKeras2LaidItOut) {
  const auto source = open_weights(kGoldens + "keras2.h5");
  EXPECT_EQ(source->format(), "hdf5");
  EXPECT_EQ(source->metadata().at("keras_version"), "2.15.0");
  EXPECT_EQ(source->metadata().at("backend"), "tensorflow");
  ASSERT_EQ(source->tensors().size(), 46U);
  const Tensor kernel = source->load_tensor("model_weights/dense/dense/kernel:0");
  EXPECT_EQ(kernel.shape(), Shape({2, 3}));
  EXPECT_EQ(kernel.to_vector<float>(), counted<float>(6));
  EXPECT_EQ(source->load_tensor("model_weights/batch_normalization/batch_normalization/moving_variance:0")
                .to_vector<float>(),
            counted<float>(3));
  EXPECT_EQ(source->load_tensor("model_weights/many/layer_39/kernel:0").to_vector<float>(),
            std::vector<float>(2, 39));
}

TEST(Hdf5, GroupsBeyondTheirHeaderAreNamedNotMisread) {
  // The newest layout keeps 40 links in a fractal heap.
  EXPECT_NE(message_of<NotImplemented>([] {
              open_weights(kGoldens + "keras2_latest.h5");
            }).find("the group 'model_weights/many' has too many links"),
            std::string::npos);
}

TEST(Hdf5, ReadsTheWeightsInsideAKeras3Archive) {
  const auto source = open_weights(kGoldens + "model.keras");
  EXPECT_EQ(source->load_tensor("layers/dense/vars/0").to_vector<float>(), counted<float>(6));
  EXPECT_EQ(source->load_tensor("layers/dense/vars/1").shape(), Shape({3}));
}

TEST(Hdf5, ReadsEveryTypeAndLayoutThatH5pyWrote) {
  const auto source = open_weights(kGoldens + "types.h5");
  EXPECT_EQ(source->load_tensor("little_f8").to_vector<double>(), counted<double>(6));
  EXPECT_EQ(source->load_tensor("big_f4").to_vector<float>(), counted<float>(6));
  EXPECT_EQ(source->load_tensor("big_i4").to_vector<std::int32_t>(), counted<std::int32_t>(6));
  EXPECT_EQ(source->load_tensor("little_i8").to_vector<std::int64_t>(), counted<std::int64_t>(6));
  EXPECT_EQ(source->load_tensor("little_i2").to_vector<std::int16_t>(), counted<std::int16_t>(6));
  EXPECT_EQ(source->load_tensor("byte_u1").to_vector<std::uint8_t>(), counted<std::uint8_t>(6));
  EXPECT_EQ(source->load_tensor("byte_i1").dtype(), DType::i8);
  EXPECT_EQ(source->load_tensor("little_f2").dtype(), DType::f16);
  EXPECT_EQ(source->load_tensor("bool").dtype(), DType::boolean);
  EXPECT_EQ(source->load_tensor("scalar").item(), 7.0);
  EXPECT_EQ(source->load_tensor("empty").shape(), Shape({0, 4}));
  EXPECT_EQ(source->load_tensor("chunked").to_vector<float>(), counted<float>(35));
  EXPECT_EQ(source->load_tensor("deflated").to_vector<float>(), counted<float>(350));
  EXPECT_EQ(source->load_tensor("one_axis").to_vector<float>(), counted<float>(10));
  EXPECT_THROW(source->load_tensor("little_u2"), NotImplemented);
  EXPECT_THROW(source->load_tensor("text"), NotImplemented);
}

TEST(Hdf5, LinksToOtherFilesAreNotFollowed) {
  const auto source = open_weights(kGoldens + "links.h5");
  ASSERT_EQ(source->tensors().size(), 1U);  // nor is one dataset offered under two names
  EXPECT_EQ(source->load_tensor(source->tensors()[0].name).item(), 7.0);
}

TEST(Hdf5, WhatWasNeverWrittenTakesNoMemory) {
  const auto source = open_weights(kGoldens + "types.h5");
  EXPECT_EQ(source->get_metadata("unwritten").stored_as, "float32 (never written)");
  EXPECT_THROW(source->load_tensor("unwritten"), NotImplemented);
}

TEST(Hdf5, CutAnywhereAFileIsRefusedOrKeepsWhatIsWhole) {
  const std::string whole = read_file(kGoldens + "types.h5");
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    try {
      const auto source = open_hdf5(memory_blob("x", bytes_of(whole.substr(0, size))));
      for (const TensorInfo& info : source->tensors()) {
        if (info.dtype) source->load_tensor(info.name);
      }
      ADD_FAILURE() << size;
    } catch (const FormatError& error) {
      EXPECT_EQ(error.path, "x");
    }
  }
}

TEST(Hdf5, ACircleOfGroupsEnds) {
  // The first group's header address is put in place of a dataset's in the table of its members.
  std::string text = read_file(kGoldens + "keras2.h5");
  const std::size_t table = text.find("SNOD");
  ASSERT_NE(table, std::string::npos);
  std::uint64_t root = 0;
  std::memcpy(&root, text.data() + 64, 8);  // the root's object header
  std::memcpy(text.data() + table + 16, &root, 8);
  EXPECT_NO_THROW(open_hdf5(memory_blob("x", bytes_of(text))));
}

}  // namespace
}  // namespace ingot

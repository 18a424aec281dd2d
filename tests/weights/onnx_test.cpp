#include "ingot/weights/onnx.h"

#include <filesystem>

#include "onnx.pb.h"
#include "tests/support/temporary_directory.h"
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::message_of;

std::string model_with(const std::string& initializers) {
  ::onnx::ModelProto model;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString("ir_version: 8 graph { " + initializers + " }", &model));
  return model.SerializeAsString();
}

class OnnxWeightsTest : public ::testing::Test {
 protected:
  test::TemporaryDirectory directory;
  std::unique_ptr<WeightSource> open(const std::string& initializers) {
    write_file_atomically(directory.at("m.onnx"), model_with(initializers));
    return open_weights(directory.at("m.onnx"));
  }
};

TEST_F(OnnxWeightsTest, EveryWayToStoreValuesIsRead) {
  const auto source = open(
      "initializer { name: 'raw' dims: 2 data_type: 1 raw_data: '\\000\\000\\200?\\000\\000\\000@' } "
      "initializer { name: 'floats' dims: [1, 2] data_type: 1 float_data: [1, 2] } "
      "initializer { name: 'bytes' dims: 2 data_type: 2 int32_data: [0, 255] } "
      "initializer { name: 'longs' dims: [] data_type: 7 int64_data: -5 } "
      "initializer { name: 'truths' dims: 2 data_type: 9 int32_data: [0, 1] } "
      "initializer { name: 'doubles' dims: 1 data_type: 11 double_data: 0.5 } "
      "initializer { name: 'halves' dims: 1 data_type: 10 int32_data: 15360 } "
      "initializer { name: 'words' dims: 1 data_type: 4 int32_data: 3 } ");
  EXPECT_EQ(source->format(), "onnx");
  EXPECT_EQ(source->load_tensor("raw").to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(source->load_tensor("floats").shape(), (Shape{1, 2}));
  EXPECT_EQ(source->load_tensor("bytes").to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(source->load_tensor("longs").item(), -5);
  EXPECT_EQ(source->load_tensor("doubles").item(), 0.5);
  EXPECT_EQ(source->load_tensor("halves").item(), 1);
  EXPECT_EQ(source->get_metadata("words").stored_as, "UINT16");
  EXPECT_THROW(source->load_tensor("words"), NotImplemented);
}

TEST_F(OnnxWeightsTest, ExternalDataIsMappedFromBesideTheModel) {
  write_file_atomically(directory.at("data.bin"), std::string("\0\0\0\0\0\0\x80?", 8));
  const auto source = open(
      "initializer { name: 'w' dims: 1 data_type: 1 data_location: EXTERNAL external_data { key: 'location' "
      "value: "
      "'data.bin' } external_data { key: 'offset' value: '4' } external_data { key: 'length' value: '4' } }");
  EXPECT_EQ(source->load_tensor("w").item(), 1);
  EXPECT_EQ(source->get_metadata("w").offset, 4U);
}

TEST_F(OnnxWeightsTest, ExternalDataElsewhereIsRefused) {
  std::filesystem::create_symlink("/etc", directory.at("link"));
  for (const char* location : {"/etc/passwd", "../secret", "a/../../secret", "", "link/passwd"}) {
    const auto source =
        open(std::string("initializer { name: 'w' dims: 1 data_type: 2 data_location: EXTERNAL "
                         "external_data { key: 'location' value: '") +
             location + "' } }");
    EXPECT_NE(message_of<FormatError>([&] { source->load_tensor("w"); }).find("w: external data in"),
              std::string::npos)
        << location;
  }
  // A NUL ends no message.
  const auto source = open(
      "initializer { name: 'w' dims: 1 data_type: 2 data_location: EXTERNAL external_data { key: 'location' "
      "value: 'a\\000b' } }");
  EXPECT_NE(message_of<FormatError>([&] { source->load_tensor("w"); }).find("'a\\x00b', which is not below"),
            std::string::npos);
}

TEST_F(OnnxWeightsTest, SizesThatDoNotFitAreRefused) {
  const auto load = [&](const std::string& tensor) {
    open("initializer { name: 'w' " + tensor + " }")->load_tensor("w");
  };
  EXPECT_THROW(load("dims: 3 data_type: 1 float_data: [1, 2]"), FormatError);
  EXPECT_THROW(load("dims: 1 data_type: 1 raw_data: 'abc'"), FormatError);
  EXPECT_THROW(load("dims: -1 data_type: 1"), FormatError);
  EXPECT_THROW(load("dims: [4611686018427387904, 4] data_type: 1"), FormatError);
  EXPECT_THROW(load("dims: 1 data_type: 9 raw_data: 'a'"), FormatError);
  write_file_atomically(directory.at("short.bin"), "abc");
  EXPECT_THROW(load("dims: 1 data_type: 1 data_location: EXTERNAL external_data { key: 'location' value: "
                    "'short.bin' }"),
               FormatError);
  EXPECT_THROW(
      load(
          "dims: 1 data_type: 1 data_location: EXTERNAL external_data { key: 'location' value: 'short.bin' } "
          "external_data { key: 'offset' value: '18446744073709551615' }"),
      FormatError);
  EXPECT_THROW(load("dims: 0 data_type: 1 } initializer { name: 'w' dims: 0 data_type: 1"), FormatError);
}

TEST_F(OnnxWeightsTest, WhatIsNoModelIsRefused) {
  write_file_atomically(directory.at("m.onnx"), "no protobuf at all");
  EXPECT_THROW(open_weights(directory.at("m.onnx")), FormatError);
}

}  // namespace
}  // namespace ingot

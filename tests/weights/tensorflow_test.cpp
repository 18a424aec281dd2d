#include "ingot/weights/tensorflow.h"

#include <cstring>
#include <filesystem>
#include <numeric>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::message_of;
using test::TemporaryDirectory;

const std::string kBundle = test::source_dir() + "/tests/weights/goldens/bundle";
const std::string kShard = ".data-00000-of-00001";

TEST(TensorFlow, ReadsWhatTensorFlowSaved) {
  const auto source = open_weights(kBundle);
  EXPECT_EQ(source->format(), "tensorflow");
  EXPECT_EQ(open_weights(kBundle + ".index")->tensors().size(), source->tensors().size());
  ASSERT_EQ(source->tensors().size(), 73U);
  for (const char* name : {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"}) {
    const Tensor tensor = source->load_tensor(name);
    EXPECT_EQ(tensor.dtype(), parse_dtype(name)) << name;
    EXPECT_EQ(tensor.shape(), Shape({2, 3})) << name;
  }
  EXPECT_EQ(source->load_tensor("f32").to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(source->load_tensor("i64").to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(source->load_tensor("scalar").item(), 7.0);
  EXPECT_EQ(source->load_tensor("empty").shape(), Shape({0, 4}));
  EXPECT_EQ(source->load_tensor("bert/encoder/layer_59/kernel").to_vector<float>(),
            std::vector<float>(2, 59));
  EXPECT_EQ(source->get_metadata("text").stored_as, "string");
  EXPECT_THROW(source->load_tensor("text"), NotImplemented);
}

TEST(TensorFlow, ADamagedTensorFailsItsCrcWhenItLoads) {
  TemporaryDirectory directory;
  std::string data = read_file(kBundle + kShard);
  data[open_weights(kBundle)->get_metadata("f32").offset] ^= 1;
  write_file_atomically(directory.at("bundle" + kShard), data);
  std::filesystem::copy(kBundle + ".index", directory.at("bundle.index"));
  const auto source = open_weights(directory.at("bundle"));
  EXPECT_NE(message_of<FormatError>([&] { source->load_tensor("f32"); }).find("do not have the CRC"),
            std::string::npos);
  EXPECT_NO_THROW(source->load_tensor("f64"));
}

TEST(TensorFlow, AMissingOrShortShardIsNamed) {
  TemporaryDirectory directory;
  std::filesystem::copy(kBundle + ".index", directory.at("bundle.index"));
  EXPECT_NE(
      message_of<IoError>([&] { open_weights(directory.at("bundle")); }).find("00000-of-00001: is missing"),
      std::string::npos);
  write_file_atomically(directory.at("bundle" + kShard), read_file(kBundle + kShard).substr(0, 100));
  EXPECT_NE(message_of<FormatError>([&] { open_weights(directory.at("bundle")); }).find("it was cut short"),
            std::string::npos);
}

TEST(TensorFlow, EveryDamagedByteOfTheIndexIsNoticed) {
  const std::string index = read_file(kBundle + ".index"), data = read_file(kBundle + kShard);
  const auto bytes_of = [](const std::string& text) {
    std::vector<std::byte> bytes(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  };
  const auto open = [&](const std::string& text) {
    open_tensorflow(memory_blob("x", bytes_of(text)),
                    [&](int, int) { return memory_blob("d", bytes_of(data)); });
  };
  EXPECT_NO_THROW(open(index));
  for (std::size_t size = 0; size < index.size(); size += 3) {
    EXPECT_THROW(open(index.substr(0, size)), FormatError) << size;
  }
  for (std::size_t at = 0; at + 48 < index.size(); at += 5) {
    std::string changed = index;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    bool in_use = true;  // all but the filters' index, which nothing reads
    try {
      open(changed);
      in_use = false;
    } catch (const Error&) {
    }
    if (!in_use) EXPECT_GT(at + 120, index.size()) << at;
  }
}

}  // namespace
}  // namespace ingot

#include "ingot/weights/gguf.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <span>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/weights/helpers.h"
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

using test::counted;
using test::kGoldens;

using test::message_of;
using test::TemporaryDirectory;

TEST(Gguf, ReadsMetadataOfEveryTypeThatGgufPyWrote) {
  const auto source = open_gguf(kGoldens + "all_types.gguf");
  const GgufMetadata& fields = source->fields();
  EXPECT_EQ(fields.text("general.architecture"), "test");
  EXPECT_EQ(fields.integer("test.u8"), 200);
  EXPECT_EQ(fields.integer("test.i8"), -100);
  EXPECT_EQ(fields.integer("test.u16"), 60000);
  EXPECT_EQ(fields.integer("test.i16"), -30000);
  EXPECT_EQ(fields.integer("test.u32"), 4000000000);
  EXPECT_EQ(fields.integer("test.i32"), -2000000000);
  EXPECT_EQ(fields.integer("test.i64"), INT64_MIN);
  EXPECT_EQ(fields.find("test.u64")->to_string(), "18446744073709551615");
  EXPECT_EQ(fields.number("test.f32"), static_cast<double>(1e-5F));
  EXPECT_EQ(fields.number("test.f64"), 0.1);
  EXPECT_EQ(fields.number("test.u8"), 200.0);
  EXPECT_EQ(fields.boolean("test.bool"), true);
  EXPECT_EQ(fields.text("test.string"), "gr\u00fc\u00df dich");
  EXPECT_EQ(*fields.texts("test.strings"), (std::vector<std::string>{"a", "", "\u4e16\u754c"}));
  EXPECT_EQ(fields.integers("test.integers"), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(fields.numbers("test.floats"), (std::vector<double>{0.5, -1.5}));
  EXPECT_EQ(fields.integer("absent"), std::nullopt);
  EXPECT_EQ(source->metadata().at("test.f32"), "1e-05");
  EXPECT_EQ(source->metadata().at("test.booleans"), "[1, 0]");
}

TEST(Gguf, AValueOfAnotherTypeIsAnErrorThatNamesTheKey) {
  const auto source = open_gguf(kGoldens + "all_types.gguf");
  const std::string message = message_of<FormatError>([&] { source->fields().integer("test.string"); });
  EXPECT_NE(message.find("test.string: is string; expected an integer"), std::string::npos) << message;
  EXPECT_THROW(source->fields().integer("test.u64"), FormatError);  // beyond i64
  EXPECT_THROW(source->fields().text("test.strings"), FormatError);
}

TEST(Gguf, ReadsEveryPlainElementTypeThatGgufPyWrote) {
  const auto source = open_weights(kGoldens + "all_types.gguf");
  EXPECT_EQ(source->format(), "gguf");
  EXPECT_EQ(source->load_tensor("f32").shape(), Shape({2, 3}));
  EXPECT_EQ(source->load_tensor("f32").to_vector<float>(), counted<float>(6));
  EXPECT_EQ(source->load_tensor("f64").to_vector<double>(), counted<double>(3));
  EXPECT_EQ(source->load_tensor("i8").to_vector<std::int8_t>(), counted<std::int8_t>(3));
  EXPECT_EQ(source->load_tensor("i16").shape(), Shape({2, 2, 1}));
  EXPECT_EQ(source->load_tensor("i32").to_vector<std::int32_t>(), counted<std::int32_t>(2));
  EXPECT_EQ(source->load_tensor("i64").shape(), Shape({2, 1, 2, 2}));
  EXPECT_EQ(source->load_tensor("i64").to_vector<std::int64_t>(), counted<std::int64_t>(8));
  const Tensor bf16 = source->load_tensor("bf16");
  EXPECT_EQ(bf16.shape(), Shape({2, 2}));
  EXPECT_EQ(static_cast<float>(bf16.data<ingot::bf16>()[3]), 3.0F);
  EXPECT_EQ(static_cast<float>(source->load_tensor("f16").data<ingot::f16>()[4]), 4.0F);
}

TEST(Gguf, BlocksOfQuantisedTypesHaveTheValuesThatGgufPyGives) {
  const auto source = open_gguf(kGoldens + "quantized.gguf");
  std::vector<std::string> names;
  for (const TensorInfo& info : source->tensors()) {
    if (!info.name.ends_with(".values")) names.push_back(info.name);
  }
  ASSERT_EQ(names.size(), 10U);
  const std::vector<Tensor> loaded = source->load_tensors(names);  // several threads
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(loaded[i].to_vector<float>(), source->load_tensor(names[i] + ".values").to_vector<float>())
        << names[i];
  }
  EXPECT_EQ(source->get_metadata("q4_k").stored_as, "Q4_K");
  EXPECT_EQ(source->stored_bytes("q4_k").bytes.size(), 288U);
}

TEST(Gguf, AScaleThatIsNotFiniteIsRefused) {
  std::string whole = read_file(kGoldens + "quantized.gguf");
  const auto source = open_gguf(kGoldens + "quantized.gguf");
  const std::uint64_t at = source->get_metadata("q8_0").offset;
  whole[at] = '\xff';
  whole[at + 1] = '\x7f';  // an f16 NaN
  std::vector<std::byte> bytes(whole.size());
  std::memcpy(bytes.data(), whole.data(), whole.size());
  const auto broken = open_gguf(memory_blob("x", bytes));
  EXPECT_NE(
      message_of<FormatError>([&] { broken->load_tensor("q8_0"); }).find("q8_0: a Q8_0 block has a scale"),
      std::string::npos);
}

/// Everything of a source as it is, to be written again.
std::vector<GgufTensor> copy_of(const GgufSource& source) {
  std::vector<GgufTensor> tensors;
  // The writer keeps the order it is given; tensors() is sorted by name, the file by offset.
  std::vector<TensorInfo> order(source.tensors().begin(), source.tensors().end());
  std::ranges::sort(order, {}, &TensorInfo::offset);
  for (const TensorInfo& info : order) {
    const Blob stored = source.stored_bytes(info.name);
    tensors.push_back({info.name, info.shape, find_ggml_type(info.stored_as),
                       [stored](GgufTensor::Sink sink) { sink(stored.bytes); }});
  }
  return tensors;
}

TEST(Gguf, WritesTheSameBytesAsGgufPy) {
  TemporaryDirectory directory;
  for (const char* file : {"all_types.gguf", "quantized.gguf", "aligned.gguf"}) {
    const auto source = open_gguf(kGoldens + file);
    write_gguf(directory.at(file), source->fields(), copy_of(*source));
    EXPECT_EQ(read_file(directory.at(file)), read_file(kGoldens + file)) << file;
  }
}

TEST(Gguf, WritesTensorsOfADType) {
  TemporaryDirectory directory;
  const Tensor a = Tensor::from(counted<float>(6), {2, 3});
  const std::vector tensors{GgufTensor::of(StoredTensor::of("a", a))};
  write_gguf(directory.at("a.gguf"), GgufMetadata(), tensors);
  EXPECT_EQ(open_gguf(directory.at("a.gguf"))->load_tensor("a").to_vector<float>(), counted<float>(6));
  EXPECT_THROW(GgufTensor::of(StoredTensor::of("a", Tensor::empty({1}, DType::u8))), InvalidConfig);
  EXPECT_THROW(write_gguf(directory.at("b.gguf"), GgufMetadata(), std::vector{tensors[0], tensors[0]}),
               InvalidConfig);
  EXPECT_FALSE(std::filesystem::exists(directory.at("b.gguf")));
}

TEST(Gguf, AnyPartOfASplitModelOpensAllOfIt) {
  for (const char* file : {"split-00001-of-00003.gguf", "split-00003-of-00003.gguf"}) {
    const auto source = open_weights(kGoldens + file);
    ASSERT_EQ(source->tensors().size(), 5U);
    for (float i = 0; i < 5; ++i) {
      EXPECT_EQ(source->load_tensor("t" + std::to_string(static_cast<int>(i))).to_vector<float>(),
                std::vector<float>(4, i));
    }
    EXPECT_EQ(source->metadata().at("general.architecture"), "test");
  }
}

TEST(Gguf, PartsAreByteForByteThoseOfGgufPy) {
  const auto source = open_gguf(kGoldens + "split-00001-of-00003.gguf");
  GgufMetadata metadata;
  for (const auto& [key, value] : source->fields().entries()) {
    if (!key.starts_with("split.")) metadata.set(key, value);
  }
  std::vector<GgufTensor> tensors;
  for (const TensorInfo& info : source->tensors())
    tensors.push_back(GgufTensor::of(StoredTensor::of(info.name, source->load_tensor(info.name))));
  TemporaryDirectory directory;
  const auto paths = write_gguf_parts(directory.at("split.gguf"), metadata, tensors, 32);  // two of 16 bytes
  ASSERT_EQ(paths.size(), 3U);
  for (const std::string& path : paths) {
    const std::string name = std::filesystem::path(path).filename();
    EXPECT_EQ(read_file(path), read_file(kGoldens + name)) << name;
  }
  EXPECT_EQ(write_gguf_parts(directory.at("whole.gguf"), metadata, tensors, 80),
            std::vector<std::string>{directory.at("whole.gguf")});
  EXPECT_EQ(open_gguf(directory.at("whole.gguf"))->fields().find("split.count"), nullptr);
}

TEST(Gguf, APartThatCannotBeWrittenTakesThoseBeforeItAway) {
  TemporaryDirectory directory;
  std::vector<GgufTensor> tensors;
  for (const char* name : {"a", "b"})
    tensors.push_back(GgufTensor::of(StoredTensor::of(name, Tensor::zeros({4}))));
  tensors.back().write = [](GgufTensor::Sink) { throw IoError("b", "was lost"); };
  EXPECT_THROW(write_gguf_parts(directory.at("m.gguf"), GgufMetadata(), tensors, 1), IoError);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  tensors.back() = tensors.front();
  EXPECT_THROW(write_gguf_parts(directory.at("m.gguf"), GgufMetadata(), tensors, 1), InvalidConfig);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Gguf, AMissingPartIsNamed) {
  TemporaryDirectory directory;
  std::filesystem::copy(kGoldens + "split-00001-of-00003.gguf", directory.at("split-00001-of-00003.gguf"));
  const std::string message =
      message_of<IoError>([&] { open_gguf(directory.at("split-00001-of-00003.gguf")); });
  EXPECT_NE(message.find("split-00002-of-00003.gguf: is missing"), std::string::npos) << message;
  std::filesystem::copy(kGoldens + "split-00001-of-00003.gguf", directory.at("renamed.gguf"));
  EXPECT_NE(
      message_of<FormatError>([&] { open_gguf(directory.at("renamed.gguf")); }).find("NAME-00001-of-00003"),
      std::string::npos);
}

// A file written by hand, one field after another.
struct Builder {
  std::string text = std::string("GGUF");
  template <class T>
  Builder& number(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Builder& string(const std::string& s) {
    number<std::uint64_t>(s.size());
    text += s;
    return *this;
  }
  Builder& start(std::uint64_t tensors, std::uint64_t pairs) {
    return number<std::uint32_t>(3).number(tensors).number(pairs);
  }
  Builder& tensor(const std::string& name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                  std::uint64_t offset) {
    string(name).number<std::uint32_t>(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t size : dims) number(size);
    return number(type).number(offset);
  }
  Builder& data(std::size_t size) {
    text.resize((text.size() + 31) / 32 * 32 + size);
    return *this;
  }
  std::string rejected() const {
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return message_of<FormatError>([&] { open_gguf(memory_blob("x.gguf", bytes)); });
  }
};

TEST(Gguf, BadFilesSayWhatIsWrong) {
  const auto says = [](const Builder& builder, const char* part) {
    const std::string message = builder.rejected();
    EXPECT_TRUE(message.starts_with("x.gguf: at byte ")) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(Builder().number<std::uint32_t>(1), "version: is 1; 2 and 3 can be read");
  says(Builder().number<std::uint32_t>(0x03000000), "big-endian");
  says(Builder().start(1ULL << 60, 0), "tensor_count: is 1152921504606846976, but only");
  says(Builder().start(0, 1ULL << 60), "metadata_kv_count: is");
  says(Builder().start(0, 1).number<std::uint64_t>(1ULL << 62).data(64), "metadata key: takes");
  says(Builder().start(0, 1).string("k").number<std::uint32_t>(13).data(64), "k: has type 13");
  says(Builder()
           .start(0, 1)
           .string("k")
           .number<std::uint32_t>(9)
           .number<std::uint32_t>(8)
           .number(1ULL << 40)
           .data(0),
       "k: is 1099511627776, but only");
  says(Builder().start(0, 1).string("k").number<std::uint32_t>(7).number<std::uint8_t>(2).data(32),
       "k: holds 2 as a boolean");
  says(Builder()
           .start(0, 2)
           .string("k")
           .number<std::uint32_t>(0)
           .number<std::uint8_t>(1)
           .string("k")
           .number<std::uint32_t>(0)
           .number<std::uint8_t>(1)
           .data(0),
       "k: is given twice");
  says(Builder()
           .start(0, 1)
           .string("general.alignment")
           .number<std::uint32_t>(4)
           .number<std::uint32_t>(24)
           .data(0),
       "general.alignment: is 24; a power of two");
  says(Builder().start(1, 0).tensor("a", {1, 1, 1, 1, 1}, 0, 0).data(4), "a: has 5 axes");
  says(Builder().start(1, 0).tensor("a", {1}, 99, 0).data(4), "a: has element type 99");
  says(Builder().start(1, 0).tensor("a", {1ULL << 62, 4}, 0, 0).data(4), "overflows");
  says(Builder().start(1, 0).tensor("a", {0, 1ULL << 62, 1ULL << 62}, 0, 0).data(4), "overflows");
  says(Builder().start(1, 0).tensor("a", {1ULL << 63}, 0, 0).data(4), "a: has an axis of size");
  says(Builder().start(1, 0).tensor("a", {31}, 8, 0).data(40), "not whole blocks of 32 (Q8_0)");
  says(Builder().start(1, 0).tensor("a", {1}, 0, 4).data(64), "a.offset: is 4, no multiple");
  says(Builder().start(1, 0).tensor("a", {2}, 0, 0).data(4),
       "a.offset: 0 and 8 bytes from there reach beyond");
  says(Builder().start(1, 0).tensor("a", {1}, 0, ~0ULL - 31).data(4), "reach beyond");
  says(Builder().start(2, 0).tensor("a", {16}, 0, 0).tensor("b", {1}, 0, 32).data(64),
       "lies inside 'a': they overlap");
  says(Builder().start(2, 0).tensor("a", {1}, 0, 0).tensor("a", {1}, 0, 32).data(64),
       "two tensors have this name");
  Builder nested;
  nested.start(0, 1).string("k").number<std::uint32_t>(9);
  for (int i = 0; i < 50; ++i) nested.number<std::uint32_t>(9).number<std::uint64_t>(1);
  says(nested.data(64), "k: nests more than 4 arrays");
}

TEST(Gguf, CutAnywhereAFileIsRefused) {
  const std::string whole = read_file(kGoldens + "all_types.gguf");
  for (std::size_t size = 0; size < whole.size() - 32; ++size) {  // what follows the last tensor is padding
    const auto bytes = std::as_bytes(std::span(whole).first(size));
    EXPECT_THROW(open_gguf(memory_blob("x", {bytes.begin(), bytes.end()})), FormatError) << size;
  }
}

RC_GTEST_PROP(Gguf, MetadataSurviveTheRoundTrip, ()) {
  GgufMetadata metadata;
  const auto keys =
      *rc::gen::unique<std::vector<std::string>>(rc::gen::nonEmpty(rc::gen::string<std::string>()));
  for (const std::string& key : keys) {
    if (key == "general.alignment") continue;
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        metadata.set(key, GgufValue::of_u32(*rc::gen::arbitrary<std::uint32_t>()));
        break;
      case 1:
        metadata.set(key, GgufValue::of_string(*rc::gen::arbitrary<std::string>()));
        break;
      case 2:
        metadata.set(key, GgufValue::of_strings(*rc::gen::arbitrary<std::vector<std::string>>()));
        break;
      case 3:
        metadata.set(key, GgufValue::of_i32s(*rc::gen::arbitrary<std::vector<std::int32_t>>()));
        break;
      default:
        metadata.set(
            key, GgufValue{GgufType::array, true,
                           std::vector<GgufValue>{GgufValue::of_i32s({1, 2}), GgufValue::of_strings({"x"})}});
    }
  }
  TemporaryDirectory directory;
  write_gguf(directory.at("a.gguf"), metadata, {});
  RC_ASSERT(open_gguf(directory.at("a.gguf"))->fields() == metadata);
}

}  // namespace
}  // namespace ingot

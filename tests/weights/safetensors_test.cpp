#include "ingot/weights/safetensors.h"

#include <cstring>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/weights/helpers.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using test::kGoldens;
using test::values_of;

using test::message_of;
using test::TemporaryDirectory;

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  std::vector<std::byte> bytes(8 + header.size() + data_bytes);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

std::unique_ptr<WeightSource> open(const std::string& header, std::size_t data_bytes) {
  return open_safetensors(memory_blob("x.safetensors", file_of(header, data_bytes)));
}

TEST(Safetensors, ReadsEveryDTypeThatThePythonLibraryWrote) {
  const auto source = open_weights(kGoldens + "all_dtypes.safetensors");
  EXPECT_EQ(source->format(), "safetensors");
  EXPECT_EQ(source->metadata().at("format"), "pt");
  ASSERT_EQ(source->tensors().size(), 15U);
  for (const TensorInfo& info : source->tensors()) {
    const Tensor tensor = source->load_tensor(info.name);
    EXPECT_EQ(tensor.shape().to_vector(), info.shape) << info.name;
    std::vector<double> expected(static_cast<std::size_t>(tensor.numel()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = tensor.dtype() == DType::boolean ? static_cast<double>(i % 2) : static_cast<double>(i);
    }
    if (info.name == "scalar") expected = {7.0};
    EXPECT_EQ(values_of(tensor), expected) << info.name;
  }
  EXPECT_EQ(source->load_tensor("bf16").dtype(), DType::bf16);
  EXPECT_EQ(source->load_tensor("f8e5m2").dtype(), DType::f8e5m2);
  EXPECT_EQ(source->load_tensor("empty").shape(), Shape({0, 4}));
  EXPECT_TRUE(source->is_available("quote\"d \\ \xc3\xbc/name"));
}

TEST(Safetensors, WritesTheSameBytesAsThePythonLibrary) {
  TemporaryDirectory directory;
  for (const char* file : {"all_dtypes.safetensors", "no_metadata.safetensors"}) {
    const auto source = open_weights(kGoldens + file);
    std::vector<StoredTensor> tensors;
    for (const TensorInfo& info : source->tensors()) {
      tensors.push_back(StoredTensor::of(info.name, source->load_tensor(info.name)));
    }
    SafetensorsOptions options;
    options.metadata = source->metadata();
    write_safetensors(directory.at(file), tensors, options);
    EXPECT_EQ(read_file(directory.at(file)), read_file(kGoldens + file)) << file;
  }
}

TEST(Safetensors, LoadedTensorsAliasTheFileAndSurviveTheSource) {
  TemporaryDirectory directory;
  const std::string path = directory.at("a.safetensors");
  write_safetensors(path, std::vector{StoredTensor::of("a", Tensor::from<float>({1, 2, 3}, {3}))});
  Tensor first, second;
  {
    const auto source = open_safetensors(path);
    EXPECT_TRUE(source->capabilities().zero_copy);
    first = source->load_tensor("a");
    second = source->load_tensor("a");
  }
  EXPECT_EQ(first.data<float>(), second.data<float>());
  first.data<float>()[0] = 10;  // copy-on-write: allowed, and the file stays
  EXPECT_EQ(second.data<float>()[0], 10);
  EXPECT_EQ(open_safetensors(path)->load_tensor("a").to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST(Safetensors, UnalignedTensorsAreCopied) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  std::vector<std::byte> bytes = file_of(header, 5);
  const float value = 2.5F;
  std::memcpy(bytes.data() + bytes.size() - 4, &value, 4);
  EXPECT_EQ(open_safetensors(memory_blob("m", bytes))->load_tensor("b").item(), 2.5);
}

TEST(Safetensors, AFileMayReplaceItselfWhileItsTensorsAreInUse) {
  TemporaryDirectory directory;
  const std::string path = directory.at("a.safetensors");
  const std::vector<float> values(100000, 1.5F);
  write_safetensors(path, std::vector{StoredTensor::of("a", Tensor::from(values, {100000}))});
  const Tensor a = open_safetensors(path)->load_tensor("a");
  write_safetensors(path, std::vector{StoredTensor::of("b", a)});
  EXPECT_EQ(open_safetensors(path)->load_tensor("b").to_vector<float>(), values);
}

TEST(Safetensors, StridedTensorsAreStoredRowMajor) {
  TemporaryDirectory directory;
  const Tensor a = Tensor::from<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  View transposed = a.view();
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  write_safetensors(directory.at("t"), std::vector{StoredTensor::of("t", Tensor(a.storage(), transposed))});
  const Tensor loaded = open_safetensors(directory.at("t"))->load_tensor("t");
  EXPECT_EQ(loaded.shape(), Shape({3, 2}));
  EXPECT_EQ(loaded.to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Safetensors, ElementTypesWithoutADTypeAreListedButNotLoaded) {
  const auto source = open_weights(kGoldens + "unsigned.safetensors");
  EXPECT_EQ(source->get_metadata("a").stored_as, "U16");
  EXPECT_FALSE(source->get_metadata("a").dtype.has_value());
  EXPECT_NE(message_of<NotImplemented>([&] { source->load_tensor("a"); }).find("U16"), std::string::npos);
}

TEST(Safetensors, AnUnknownNameIsAnsweredWithTheNearest) {
  const auto source = open_weights(kGoldens + "all_dtypes.safetensors");
  EXPECT_NE(message_of<IoError>([&] { source->load_tensor("scalr"); }).find("did you mean 'scalar'"),
            std::string::npos);
}

TEST(Safetensors, WriterRefusesANameGivenTwiceAndValuesThatDiffer) {
  TemporaryDirectory directory;
  const Tensor a = Tensor::from<float>({1}, {1});
  EXPECT_THROW(
      write_safetensors(directory.at("t"), std::vector{StoredTensor::of("a", a), StoredTensor::of("a", a)}),
      InvalidConfig);
  EXPECT_THROW(write_safetensors(directory.at("t"),
                                 std::vector{StoredTensor{"a", {2}, DType::f32, [&] { return a; }}}),
               ShapeMismatch);
  EXPECT_THROW(write_safetensors(directory.at("t"), std::vector{StoredTensor::of("\xff", a)}), InvalidConfig);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(SafetensorsShards, RoundTripThroughADirectory) {
  TemporaryDirectory directory;
  std::vector<StoredTensor> tensors;
  for (int i = 0; i < 7; ++i) {
    const auto v = static_cast<float>(i);
    tensors.push_back(StoredTensor::of("layer." + std::to_string(i), Tensor::from<float>({v, v + 1}, {2})));
  }
  SafetensorsOptions options;
  options.max_shard_bytes = 20;  // two tensors of 8 bytes each
  const auto files = write_safetensors_directory(directory.path(), tensors, options);
  ASSERT_EQ(files.size(), 5U);
  EXPECT_EQ(files[0], "model-00001-of-00004.safetensors");
  EXPECT_EQ(files[4], "model.safetensors.index.json");
  const auto source = open_weights(directory.path());
  EXPECT_EQ(source->metadata().at("total_size"), "56");
  EXPECT_EQ(source->metadata().at("format"), "pt");
  ASSERT_EQ(source->tensors().size(), 7U);
  for (int i = 0; i < 7; ++i) {
    const auto v = static_cast<float>(i);
    EXPECT_EQ(source->load_tensor("layer." + std::to_string(i)).to_vector<float>(),
              (std::vector<float>{v, v + 1}));
  }
}

TEST(SafetensorsShards, OneShardIsAPlainFile) {
  TemporaryDirectory directory;
  const auto files = write_safetensors_directory(
      directory.path(), std::vector{StoredTensor::of("a", Tensor::from<float>({1}, {1}))});
  EXPECT_EQ(files, std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(open_weights(directory.path())->tensors().size(), 1U);
}

TEST(SafetensorsShards, BadIndicesSayWhatIsWrong) {
  TemporaryDirectory directory;
  write_safetensors(directory.at("a.safetensors"), std::vector{StoredTensor::of("a", Tensor::scalar(1))});
  const auto rejected = [&](const std::string& index) {
    write_file_atomically(directory.at("model.safetensors.index.json"), index);
    return message_of<Error>([&] { open_weights(directory.path()); });
  };
  EXPECT_NE(rejected("{").find("not valid JSON"), std::string::npos);
  EXPECT_NE(rejected("[]").find("weight_map"), std::string::npos);
  EXPECT_NE(rejected(R"({"weight_map":{"a":7}})").find("weight_map.a: is not a file name"),
            std::string::npos);
  EXPECT_NE(rejected(R"({"weight_map":{"a":"../a.safetensors"}})").find("not a plain file name"),
            std::string::npos);
  EXPECT_NE(rejected(R"({"weight_map":{"a":"/a.safetensors"}})").find("not a plain file name"),
            std::string::npos);
  EXPECT_NE(rejected(R"({"weight_map":{"a":"b.safetensors"}})").find("is missing"), std::string::npos);
  EXPECT_NE(rejected(R"({"weight_map":{"b":"a.safetensors"}})").find("holds no such tensor"),
            std::string::npos);
}

TEST(OpenWeights, EmptyDirectoriesAndForeignFilesAreNamed) {
  TemporaryDirectory directory;
  EXPECT_NE(message_of<IoError>([&] { open_weights(directory.path()); }).find("holds no weights"),
            std::string::npos);
  write_file_atomically(directory.at("a.bin"), "something else entirely");
  EXPECT_NE(
      message_of<FormatError>([&] { open_weights(directory.at("a.bin")); }).find("is none that Ingot reads"),
      std::string::npos);
  EXPECT_NE(message_of<IoError>([&] { open_weights(directory.at("none")); }).find("none"), std::string::npos);
}

struct Rejected {
  const char* why;
  std::string header;
  std::size_t data_bytes;
  std::string message;
};

void PrintTo(const Rejected& rejected, std::ostream* out) { *out << rejected.why; }

class RejectedHeader : public ::testing::TestWithParam<Rejected> {};

TEST_P(RejectedHeader, IsNamedByFileOffsetAndField) {
  const std::string message =
      message_of<FormatError>([&] { open(GetParam().header, GetParam().data_bytes); });
  EXPECT_TRUE(message.starts_with("x.safetensors: at byte ")) << message;
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

const std::string kA = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";

INSTANTIATE_TEST_SUITE_P(
    Safetensors, RejectedHeader,
    ::testing::Values(
        Rejected{"not_json", "{nonsense", 0, "header: is not valid JSON"},
        Rejected{"cut_json", R"({"a":{"dtype")", 0, "header: is not valid JSON"},
        Rejected{"no_object", "[]", 0, "does not begin with '{'"},
        Rejected{"empty", "", 0, "does not begin with '{'"},
        Rejected{"bom", "\xef\xbb\xbf{}", 0, "does not begin with '{'"},
        Rejected{"trailing", "{}x", 0, "header: is not valid JSON"},
        Rejected{"trailing_nul", std::string("{}\0", 3), 0, "header: is not valid JSON"},
        Rejected{"bad_utf8", "{\"\xff\":1}", 0, "header: is not valid JSON"},
        Rejected{"tensor_is_number", R"({"a":1})", 0, "a: is a number; expected an object"},
        Rejected{"tensor_is_list", R"({"a":[]})", 0, "a: is a list; expected an object"},
        Rejected{"deep", R"({"a":{"b":{"c":{}}}})", 0, "a.b: is not a field of a tensor"},
        Rejected{"deep_shape", R"({"a":{"shape":[[1]]}})", 0,
                 "a.shape: holds a list; expected unsigned integers"},
        Rejected{"object_field", R"({"a":{"shape":{}}})", 0, "a.shape: is an object; expected a list"},
        Rejected{"metadata_number", R"({"__metadata__":{"a":1}})", 0,
                 "__metadata__.a: is a number; expected a string"},
        Rejected{"metadata_deep", R"({"__metadata__":{"a":{}}})", 0,
                 "__metadata__.a: is an object; expected a string"},
        Rejected{"metadata_twice", R"({"__metadata__":{"a":"","a":""}})", 0,
                 "__metadata__.a: is given twice"},
        Rejected{"name_twice", "{" + kA + "," + kA + "}", 4, "a: is given twice"},
        Rejected{"field_twice", R"({"a":{"dtype":"F32","dtype":"F32"}})", 0, "a.dtype: is given twice"},
        Rejected{"no_dtype", R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4, "a: has no dtype"},
        Rejected{"no_shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "a: has no shape"},
        Rejected{"no_offsets", R"({"a":{"dtype":"F32","shape":[]}})", 4, "a: has no data_offsets"},
        Rejected{"unknown_dtype", R"({"a":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", 4,
                 "a.dtype: 'F31' is not a dtype"},
        Rejected{"dtype_number", R"({"a":{"dtype":3}})", 0, "a.dtype: is a number; expected a string"},
        Rejected{"negative_size", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
                 "a.shape: holds -1; expected unsigned"},
        Rejected{"fraction", R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4,
                 "a.shape: holds 1.5; expected unsigned"},
        Rejected{"null_size", R"({"a":{"dtype":"F32","shape":[null]}})", 4, "a.shape: holds null"},
        Rejected{"boolean_size", R"({"a":{"dtype":"F32","shape":[true]}})", 4, "a.shape: holds a boolean"},
        Rejected{"huge_size", R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})",
                 4, "a.shape: has the size 18446744073709551615, which overflows"},
        Rejected{"beyond_u64", R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,18446744073709551616]}})",
                 4, "a.data_offsets: holds 18446744073709551616"},
        Rejected{"shape_overflow",
                 R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                 "a.shape: [4294967296, 4294967296] overflows"},
        Rejected{"zero_times_overflow",
                 R"({"a":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                 "overflows"},
        Rejected{"three_offsets", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
                 "a.data_offsets: has 3 numbers; expected 2"},
        Rejected{"reversed", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
                 "a.data_offsets: ends at 0, before it begins at 4"},
        Rejected{"size_differs", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                 "a.data_offsets: spans 4 bytes, but shape [2] of F32 takes 8"},
        Rejected{"half_byte", R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2,
                 "a.shape: [3] of F4 does not fill whole bytes"},
        Rejected{
            "overlap",
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
            6, "b.data_offsets: begins at 2, but 'a' reaches to 4: they overlap"},
        Rejected{
            "same_bytes",
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
            4, "they overlap"},
        Rejected{"gap", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
                 "a.data_offsets: begins at 4, and the 4 bytes before belong to no tensor"},
        Rejected{"cut_short", "{" + kA + "}", 3,
                 "a.data_offsets: ends at 4, but the file holds 3 bytes of data; it was cut short"},
        Rejected{
            "beyond_the_end",
            R"({"a":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}})", 0,
            "overflows"},
        Rejected{"empty_beyond", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[9,9]}})", 0,
                 "belong to no tensor"},
        Rejected{"rest", "{" + kA + "}", 5, "data: 1 bytes after the last tensor belong to none"}),
    [](const auto& param) { return param.param.why; });

TEST(Safetensors, LengthFieldsAreCheckedAgainstTheFile) {
  const auto rejected = [](std::vector<std::byte> bytes) {
    return message_of<FormatError>([&] { open_safetensors(memory_blob("x", std::move(bytes))); });
  };
  EXPECT_NE(rejected({}).find("has 0 bytes"), std::string::npos);
  EXPECT_NE(rejected(std::vector<std::byte>(7)).find("has 7 bytes"), std::string::npos);
  EXPECT_NE(rejected(std::vector<std::byte>(16, std::byte{0xff})).find("at most 100000000"),
            std::string::npos);
  std::vector<std::byte> longer = file_of("{}", 0);
  longer[0] = std::byte{3};
  EXPECT_NE(rejected(longer).find("header length: is 3, but only 2 bytes follow"), std::string::npos);
}

TEST(Safetensors, AcceptsSpacesAroundTheHeaderAndAFileWithoutTensors) {
  EXPECT_EQ(open(" \n{}   ", 0)->tensors().size(), 0U);
  EXPECT_EQ(open(R"({"__metadata__":{}})", 0)->tensors().size(), 0U);
}

TEST(Safetensors, BooleansOtherThanZeroAndOneAreRefused) {
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  std::vector<std::byte> bytes = file_of(header, 2);
  bytes.back() = std::byte{2};
  const auto source = open_safetensors(memory_blob("x", bytes));
  EXPECT_NE(message_of<FormatError>([&] { source->load_tensor("a"); }).find("other than 0 and 1"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot

#include "ingot/weights/torch.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/weights/helpers.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/open.h"
#include "ingot/weights/pickle.h"
#include "ingot/weights/torch_writer.h"
#include "ingot/weights/zip.h"

namespace ingot {
namespace {

using test::bytes_of;
using test::kGoldens;
using test::values_of;

using test::message_of;
using test::TemporaryDirectory;
using Floats = std::vector<float>;

class StateDicts : public ::testing::TestWithParam<std::string> {};

TEST_P(StateDicts, HoldWhatTorchSaved) {
  const auto source = open_weights(kGoldens + GetParam());
  EXPECT_EQ(source->format(), "pytorch");
  for (const char* name :
       {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "f8e4m3", "f8e5m2"}) {
    if (!source->is_available(name) && GetParam() == "legacy.pt") continue;
    const Tensor tensor = source->load_tensor(name);
    EXPECT_EQ(tensor.shape(), Shape({2, 3})) << name;
    EXPECT_EQ(tensor.dtype(), parse_dtype(name)) << name;
    EXPECT_EQ(values_of(tensor), (std::vector<double>{0, 1, 2, 3, 4, 5})) << name;
  }
  EXPECT_EQ(values_of(source->load_tensor("bool")), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(source->load_tensor("scalar").item(), 7.0);
  EXPECT_EQ(source->load_tensor("empty").shape(), Shape({0, 4}));
  EXPECT_EQ(source->load_tensor("parameter").to_vector<float>(), (Floats{0, 1}));
}

TEST_P(StateDicts, StridedAndSharedTensorsComeOutInOrder) {
  const auto source = open_weights(kGoldens + GetParam());
  const Tensor transposed = source->load_tensor("transposed");
  EXPECT_EQ(transposed.shape(), Shape({3, 2}));
  EXPECT_TRUE(transposed.is_contiguous());
  EXPECT_EQ(transposed.to_vector<float>(), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(source->load_tensor("rows").to_vector<float>(), (Floats{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(source->load_tensor("column").to_vector<float>(), (Floats{1, 4, 7, 10}));
  EXPECT_EQ(source->load_tensor("expanded").to_vector<float>(), (Floats{5, 5, 5, 5}));
  EXPECT_EQ(source->get_metadata("rows").offset, source->get_metadata("whole").offset + 12);
  EXPECT_EQ(source->stored_bytes("rows").bytes.size(), 24U);
  EXPECT_THROW(source->stored_bytes("column"), NotImplemented);
}

INSTANTIATE_TEST_SUITE_P(Files, StateDicts, ::testing::Values("all_dtypes.pt", "legacy.pt"),
                         [](const auto& param) { return param.param.substr(0, param.param.size() - 3); });

TEST(Torch, ElementTypesWithoutADTypeAreListedButNotLoaded) {
  const auto source = open_weights(kGoldens + "all_dtypes.pt");
  EXPECT_EQ(source->get_metadata("u16").stored_as, "uint16");
  EXPECT_THROW(source->load_tensor("u16"), NotImplemented);
}

TEST(Torch, OfATrainingCheckpointTheModelIsOffered) {
  const auto source = open_weights(kGoldens + "checkpoint.pt");
  EXPECT_EQ(source->metadata().at("epoch"), "3");
  EXPECT_EQ(source->metadata().at("note"), "hello");
  EXPECT_EQ(source->metadata().at("model_under"), "state_dict");
  ASSERT_EQ(source->tensors().size(), 7U);
  EXPECT_EQ(source->load_tensor("0.weight").to_vector<float>(), Floats(6, 0));
  EXPECT_EQ(source->load_tensor("1.running_var").to_vector<float>(), Floats(3, 5));
  EXPECT_EQ(source->load_tensor("1.num_batches_tracked").dtype(), DType::i64);
}

TEST(Torch, NewerPickleProtocolsAreReadToo) {
  EXPECT_EQ(open_weights(kGoldens + "protocol4.pt")->load_tensor("0.bias").to_vector<float>(), Floats(3, 1));
}

TEST(Torch, CodeInAFileIsNamedAndNeverRuns) {
  std::filesystem::remove("/tmp/ingot-was-here");
  for (const char* file : {"evil.pt", "evil_legacy.pt"}) {
    const std::string message = message_of<FormatError>([&] { open_weights(kGoldens + file); });
    EXPECT_NE(message.find("names posix.system, which is not part of a state dict and could run code"),
              std::string::npos)
        << message;
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/ingot-was-here"));
}

TEST(Torch, ShardsAreFoundByTheirIndex) {
  TemporaryDirectory directory;
  for (const char* name : {"a.bin", "b.bin"})
    std::filesystem::copy(kGoldens + "protocol4.pt", directory.at(name));
  write_file_atomically(directory.at("pytorch_model.bin.index.json"),
                        R"({"weight_map": {"0.weight": "a.bin", "0.bias": "b.bin"}})");
  const auto source = open_weights(directory.path());
  EXPECT_EQ(source->tensors().size(), 2U);
  EXPECT_EQ(source->load_tensor("0.bias").to_vector<float>(), Floats(3, 1));
}

TEST(Torch, LoadedTensorsAliasTheFileAndSurviveTheSource) {
  TemporaryDirectory directory;
  std::filesystem::copy(kGoldens + "all_dtypes.pt", directory.at("a.pt"));
  auto source = open_weights(directory.at("a.pt"));
  const Tensor a = source->load_tensor("f32"), b = source->load_tensor("f32");
  source.reset();
  EXPECT_EQ(a.data<float>(), b.data<float>());
}

std::string pickle_error(const std::string& program) {
  const std::vector<std::byte> bytes = bytes_of(program);
  return message_of<FormatError>([&] { read_pickle(bytes, "x.pkl"); });
}

TEST(Pickle, WhatIsNoStateDictIsRefused) {
  const auto says = [](const std::string& program, const char* part) {
    const std::string message = pickle_error(program);
    EXPECT_TRUE(message.starts_with("x.pkl: at byte ")) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says("", "takes 1 bytes, but only 0 follow");
  says(".", "empty stack");
  says("N", "takes 1 bytes");
  says("0.", "empty stack");
  says("Nt.", "goes back to a mark that was never set");
  says("(.", "empty stack");
  says("h\x07.", "remembers value 7");
  says("X\xff\xff\xff\xff.", "takes 4294967295 bytes");
  says("cos\nsystem\n.", "names os.system");
  says("c__torch__.Net\nNet\n.", "TorchScript");
  says("\x8c\x02os\x8c\x06system\x93.", "names os.system");
  says("}Na.", "expected a list");
  says("]NNs.", "expected a dictionary");
  says("}(NNNu.", "a key without a value");
  says("N)R.", "expected a function");
  says("ctorch\nSize\n)R.", "calls Size with 0 arguments");
  says("ctorch\nTensor\n)R.", "calls torch.Tensor");
  says("ctorch._utils\n_rebuild_tensor_v2\n)R.", "with 0 arguments");
  says("(K\x01K\x02tQ.", "not a storage");
  says("i", "operation 0x69");
  says("\x80\x09.", "protocol 9");
  says(
      "K\x01N"
      "b.",
      "sets attributes of something");
  std::string cycle = "ctorch._tensor\n_rebuild_from_type_v2\n(";
  cycle += "ctorch._tensor\n_rebuild_from_type_v2\nN)tR.";
  says(cycle, "by rebuilding it");
}

TEST(Pickle, ADictionaryThatContainsItselfIsNoDanger) {
  TemporaryDirectory directory;
  write_file_atomically(directory.at("a.pt"), [](FileWriter& out) {
    ZipWriter zip(out);
    const std::string program = std::string(
        "\x80\x02}q\x00X\x01\x00\x00\x00"
        "ah\x00s.",
        16);
    zip.add("a/data.pkl", program.size(),
            [&](ZipWriter::Sink sink) { sink(std::as_bytes(std::span(program))); });
    zip.finish();
  });
  EXPECT_NE(message_of<FormatError>([&] { open_weights(directory.at("a.pt")); }).find("contains itself"),
            std::string::npos);
}

// Lists of lists of lists, each of the same ten: 10^20 elements in a file of 200 bytes.
TEST(Pickle, ValuesSharedExponentiallyOftenAreRefused) {
  std::string program = "]q" + std::string(1, '\0');
  for (char i = 1; i <= 20; ++i) {
    program += "](";
    for (int k = 0; k < 10; ++k) program += std::string("h") + static_cast<char>(i - 1);
    program += std::string("eq") + i;
  }
  program += ".";
  TemporaryDirectory directory;
  write_file_atomically(directory.at("a.pt"), [&](FileWriter& out) {
    ZipWriter zip(out);
    zip.add("a/data.pkl", program.size(),
            [&](ZipWriter::Sink sink) { sink(std::as_bytes(std::span(program))); });
    zip.finish();
  });
  EXPECT_NE(message_of<FormatError>([&] { open_weights(directory.at("a.pt")); }).find("in too many places"),
            std::string::npos);
}

/// A state dict of one tensor "t", f32, with these numbers.
std::string one_tensor(int elements, int offset, int size, int stride, std::size_t bytes) {
  TemporaryDirectory directory;
  const auto number = [](int n) {
    return std::string("J") + std::string(reinterpret_cast<const char*>(&n), 4);
  };
  const auto word = [](const std::string& s) {
    return std::string("\x8c") + static_cast<char>(s.size()) + s;
  };
  const std::string program = "}" + word("t") + "ctorch._utils\n_rebuild_tensor_v2\n((" + word("storage") +
                              "ctorch\nFloatStorage\n" + word("0") + word("cpu") + number(elements) + "tQ" +
                              number(offset) + number(size) + "\x85" + number(stride) + "\x85" + "\x89}tRs.";
  const std::string data(bytes, '\0');
  write_file_atomically(directory.at("a.pt"), [&](FileWriter& out) {
    ZipWriter zip(out);
    zip.add("a/data.pkl", program.size(),
            [&](ZipWriter::Sink sink) { sink(std::as_bytes(std::span(program))); });
    zip.add("a/data/0", data.size(), [&](ZipWriter::Sink sink) { sink(std::as_bytes(std::span(data))); });
    zip.finish();
  });
  try {
    EXPECT_EQ(open_weights(directory.at("a.pt"))->load_tensor("t").numel(), size);
    return "";
  } catch (const FormatError& error) {
    return error.what();
  }
}

TEST(Torch, TensorsBeyondTheirStorageAreRefused) {
  EXPECT_EQ(one_tensor(4, 0, 4, 1, 16), "");
  EXPECT_EQ(one_tensor(4, 1, 2, 2, 16), "");
  EXPECT_NE(one_tensor(4, 0, 4, 1, 15).find("reaches beyond its storage's 3 elements"), std::string::npos);
  EXPECT_NE(one_tensor(4, 1, 4, 1, 16).find("reaches beyond"), std::string::npos);
  EXPECT_NE(one_tensor(4, -1, 4, 1, 16).find("reaches beyond"), std::string::npos);
  EXPECT_NE(one_tensor(4, 0, 2, 4, 16).find("reaches beyond"), std::string::npos);
  EXPECT_NE(one_tensor(4, 0, 4, -1, 16).find("negative size or stride"), std::string::npos);
  EXPECT_NE(one_tensor(4, 0, -4, 1, 16).find("negative size or stride"), std::string::npos);
  EXPECT_NE(one_tensor(4, 0, 2000000000, 0, 16).find("repeats the 16 bytes"), std::string::npos);
}

TEST(Torch, CutAnywhereAFileIsRefused) {
  for (const char* file : {"protocol4.pt", "legacy.pt"}) {
    const std::string whole = read_file(kGoldens + file);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(open_torch(memory_blob("x", bytes_of(whole.substr(0, size)))), FormatError)
          << file << size;
    }
  }
}

TEST(WrittenStateDicts, HoldWhatWasGivenInEveryTypeThatTorchHas) {
  const TemporaryDirectory directory;
  std::vector<StoredTensor> tensors;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::i16, DType::i8, DType::u8, DType::boolean}) {
    const Tensor values = to(Tensor::from(Floats{0, 1, 1, 0, 1, 0}, {2, 3}), dtype);
    tensors.push_back(StoredTensor::of(std::string(name(dtype)), values));
  }
  tensors.push_back(StoredTensor::of("scalar", Tensor::from(Floats{7}, {})));
  tensors.push_back(StoredTensor::of("empty", Tensor::empty({0, 4})));
  tensors.push_back({.name = "later", .shape = {2}, .dtype = DType::f32, .values = [] {
                       return Tensor::from(Floats{3, 4}, {2});
                     }});
  write_torch(directory.at("a.pt"), tensors);
  const auto source = open_weights(directory.at("a.pt"));
  EXPECT_EQ(source->format(), "pytorch");
  ASSERT_EQ(source->tensors().size(), tensors.size());
  for (const StoredTensor& tensor : tensors) {
    const Tensor read = source->load_tensor(tensor.name);
    EXPECT_EQ(read.shape(), tensor.shape) << tensor.name;
    EXPECT_EQ(read.dtype(), tensor.dtype) << tensor.name;
    EXPECT_EQ(values_of(read), values_of(tensor.values())) << tensor.name;
  }
  EXPECT_EQ(source->get_metadata("f32").offset % 64, 0U);
}

TEST(WrittenStateDicts, HaveSharedMemoryOnce) {
  const TemporaryDirectory directory;
  std::vector<float> values(3000);
  std::iota(values.begin(), values.end(), 0.0F);
  const Tensor whole = Tensor::from(values, {60, 50});
  const std::map<std::string, Tensor> tensors{
      {"embedding", whole}, {"head", whole}, {"rows", narrow(whole, 0, 10, 20)}};
  write_torch(directory.at("tied.pt"), tensors);
  EXPECT_LT(std::filesystem::file_size(directory.at("tied.pt")), whole.nbytes() + 2000);
  const auto source = open_weights(directory.at("tied.pt"));
  EXPECT_EQ(source->get_metadata("head").offset, source->get_metadata("embedding").offset);
  EXPECT_EQ(source->load_tensor("head").to_vector<float>(), values);
  EXPECT_EQ(source->load_tensor("rows").to_vector<float>(), narrow(whole, 0, 10, 20).to_vector<float>());
}

// Whatever the order in memory.
TEST(WrittenStateDicts, HaveSharedMemoryOncePerElementType) {
  const TemporaryDirectory directory;
  const Tensor whole = Tensor::from(Floats(3000, 1), {3000});
  const auto bits = [&](std::int64_t first) {
    return Tensor(whole.storage(), contiguous_view(whole.data<float>() + first, {500}, DType::i32, kCpu));
  };
  write_torch(directory.at("a.pt"),
              {{"bits", bits(0)}, {"first", whole}, {"later_bits", bits(100)}, {"second", whole}});
  EXPECT_LT(std::filesystem::file_size(directory.at("a.pt")), whole.nbytes() + 600 * 4 + 2000);
  const auto source = open_weights(directory.at("a.pt"));
  EXPECT_EQ(source->get_metadata("first").offset, source->get_metadata("second").offset);
  EXPECT_EQ(source->load_tensor("second").to_vector<float>(), Floats(3000, 1));
  EXPECT_EQ(values_of(source->load_tensor("later_bits")), std::vector<double>(500, 0x3f800000));
}

TEST(WrittenStateDicts, KeepTheTiesOfTheFileThatTheyAreConvertedFrom) {
  const TemporaryDirectory directory;
  const Tensor tied = Tensor::from(Floats(2500, 1), {50, 50}),
               other = Tensor::from(Floats(2500, 1), {50, 50});
  write_torch(directory.at("a.pt"), {{"embedding", tied}, {"head", tied}, {"other", other}});
  const auto source = std::shared_ptr(open_weights(directory.at("a.pt")));
  EXPECT_EQ(source->get_metadata("head").same_as, "embedding");
  EXPECT_EQ(source->get_metadata("other").same_as, "");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto encoded = encode_weights(source, {.dtype = dtype}, false);
    const std::string path = directory.at(std::string(name(dtype)) + ".pt");
    write_torch(path, stored_tensors(*encoded));
    EXPECT_LT(std::filesystem::file_size(path), 2 * 2500 * byte_size(dtype) + 2000);
    const auto again = open_weights(path);
    EXPECT_EQ(again->get_metadata("head").same_as, "embedding");
    EXPECT_NE(again->get_metadata("head").offset, again->get_metadata("other").offset);
    EXPECT_EQ(values_of(again->load_tensor("head")), std::vector<double>(2500, 1));
  }
}

TEST(WrittenStateDicts, HaveATensorWhoseNameIsEmptyBesideOthers) {
  const TemporaryDirectory directory;
  for (const bool in_memory : {true, false}) {
    const std::map<std::string, Tensor> tensors{{"", Tensor::from(Floats{1, 2}, {2})},
                                                {"other", Tensor::from(Floats{3, 4, 5}, {3})}};
    const std::string path = directory.at(in_memory ? "memory.pt" : "later.pt");
    std::vector<StoredTensor> stored;
    for (const auto& [name, tensor] : tensors) stored.push_back(StoredTensor::of(name, tensor));
    in_memory ? write_torch(path, tensors) : write_torch(path, stored);
    const auto source = open_weights(path);
    EXPECT_EQ(source->load_tensor("").to_vector<float>(), (Floats{1, 2}));
    EXPECT_EQ(source->load_tensor("other").to_vector<float>(), (Floats{3, 4, 5}));
  }
}

TEST(WrittenStateDicts, RefuseWhatTorchHasNotAndNamesGivenTwice) {
  const TemporaryDirectory directory;
  const std::vector<StoredTensor> small{StoredTensor::of("x", Tensor::empty({1}, DType::f8e4m3))};
  EXPECT_NE(message_of<IoError>([&] { write_torch(directory.at("b.pt"), small); }).find("f8e4m3"),
            std::string::npos);
  const StoredTensor one = StoredTensor::of("x", Tensor::zeros({1}));
  EXPECT_THROW(write_torch(directory.at("b.pt"), std::vector{one, one}), InvalidConfig);
  EXPECT_FALSE(std::filesystem::exists(directory.at("b.pt")));
}

}  // namespace
}  // namespace ingot

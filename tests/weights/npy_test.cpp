#include "ingot/weights/npy.h"

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

using test::counted;
using test::kGoldens;

using test::message_of;
using test::TemporaryDirectory;

TEST(Npy, ReadsWhatNumPyWrote) {
  EXPECT_EQ(read_npy(kGoldens + "f4.npy").to_vector<float>(), counted<float>(6));
  EXPECT_EQ(read_npy(kGoldens + "f4.npy").shape(), Shape({2, 3}));
  EXPECT_EQ(read_npy(kGoldens + "f8_scalar.npy").item(), 2.5);
  EXPECT_EQ(read_npy(kGoldens + "f8_scalar.npy").rank(), 0);
  EXPECT_EQ(read_npy(kGoldens + "f2_vector.npy").dtype(), DType::f16);
  EXPECT_EQ(read_npy(kGoldens + "i8_big_endian.npy").to_vector<std::int64_t>(), counted<std::int64_t>(4));
  EXPECT_EQ(read_npy(kGoldens + "u1_empty.npy").shape(), Shape({0, 3}));
  EXPECT_EQ(read_npy(kGoldens + "version2.npy").to_vector<std::int32_t>(), counted<std::int32_t>(2));
  const Tensor b = read_npy(kGoldens + "b1.npy");
  EXPECT_TRUE(b.data<bool>()[0] && !b.data<bool>()[1] && b.data<bool>()[2]);
}

TEST(Npy, FortranOrderComesOutRowMajor) {
  const Tensor tensor = read_npy(kGoldens + "f4_fortran.npy");
  EXPECT_EQ(tensor.shape(), Shape({2, 3, 4}));
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.to_vector<float>(), counted<float>(24));
}

TEST(Npy, WritesTheSameBytesAsNumPy) {
  TemporaryDirectory directory;
  for (const char* file : {"f4.npy", "f8_scalar.npy", "f2_vector.npy", "b1.npy", "u1_empty.npy"}) {
    write_npy(directory.at(file), read_npy(kGoldens + file));
    EXPECT_EQ(read_file(directory.at(file)), read_file(kGoldens + file)) << file;
  }
}

TEST(Npy, IsASourceOfOneTensorNamedLikeTheFile) {
  const auto source = open_weights(kGoldens + "f4.npy");
  EXPECT_EQ(source->format(), "npy");
  ASSERT_EQ(source->tensors().size(), 1U);
  EXPECT_EQ(source->tensors()[0].name, "f4");
  EXPECT_EQ(source->tensors()[0].bytes, 24U);
}

TEST(Npy, TypesThatNumPyOrIngotLacksAreNamed) {
  TemporaryDirectory directory;
  EXPECT_NE(message_of<IoError>([&] {
              write_npy(directory.at("a.npy"), Tensor::empty({1}, DType::bf16));
            }).find("convert the tensor to f32"),
            std::string::npos);
  EXPECT_NE(message_of<NotImplemented>([] { read_npy(kGoldens + "u2.npy"); }).find("'<u2'"),
            std::string::npos);
}

TEST(Npy, BadFilesSayWhatIsWrong) {
  const auto rejected = [](const std::string& dict, const std::string& data) {
    std::string text = "\x93NUMPY\x01";
    text += '\0';
    text += static_cast<char>(dict.size() & 0xff);
    text += static_cast<char>(dict.size() >> 8);
    text += dict + data;
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return message_of<FormatError>([&] { open_npy(memory_blob("x.npy", bytes)); });
  };
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_TRUE(message.starts_with("x.npy: at byte ")) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(rejected("", ""), "header: is not a dictionary");
  says(rejected("{'descr': '<f4'}", ""), "lacks one of");
  says(rejected("{'descr': '<f4', 'descr': '<f4'}", ""), "is given twice");
  says(rejected("{'descr': '<f4', 'fortran_order': 1, 'shape': ()}", ""), "neither True nor False");
  says(rejected("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ""),
       "shape: holds something else");
  says(rejected("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", ""),
       "shape: holds something else");
  says(rejected("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4)}", ""),
       "overflows");
  says(rejected("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234"), "has 4 bytes, but");
  says(rejected("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "12345"), "has 5 bytes, but");
  says(rejected("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "12345678"),
       "pickled Python objects");
  says(rejected("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", ""), "structured type");
  says(rejected("{'descr': '<f4", ""), "a quoted word does not end");
  says(rejected("{'descr': '<f4', 'fortran_order': False, 'shape': (), }x", ""), "goes on after");
  EXPECT_NE(message_of<FormatError>([] {
              open_npy(memory_blob("x", std::vector<std::byte>(3)));
            }).find("not a .npy file"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot

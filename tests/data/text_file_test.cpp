#include "ingot/data/text_file.h"

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "ingot/base/error.h"

namespace ingot::data {
namespace {

using test::message_of;
using test::TemporaryDirectory;

std::string gzipped(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 256, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstandard(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class TextFiles : public testing::Test {
 protected:
  std::string put(std::string_view bytes) {
    write_file_atomically(path_, bytes);
    return path_;
  }
  std::string text_of(std::string_view bytes, const std::string& encoding = {}) {
    return read_text_file(put(bytes), encoding);
  }
  std::string refused(std::string_view bytes) {
    return message_of<FormatError>([&] { text_of(bytes); });
  }
  TemporaryDirectory directory_;
  std::string path_ = directory_.at("a.txt");
};

TEST_F(TextFiles, ArePackedOrEncodedWhateverTheyAreCalled) {
  const std::string text = "gr\u00fc\u00df dich\n";
  EXPECT_EQ(text_of(text), text);
  EXPECT_EQ(text_of("\xEF\xBB\xBF" + text), text);
  EXPECT_EQ(text_of(gzipped(text)), text);
  EXPECT_EQ(text_of(gzipped(text) + gzipped("more")), text + "more") << "members of one file";
  EXPECT_EQ(text_of(zstandard(text)), text);
  EXPECT_EQ(text_of(zstandard(text) + zstandard("more")), text + "more");
  EXPECT_EQ(text_of(std::string("\xFF\xFE\xFC\0b\0", 6)), "\u00fcb");
  EXPECT_EQ(text_of(std::string("\xFE\xFF\0\xFC\0b", 6)), "\u00fcb");
  EXPECT_EQ(text_of(gzipped(std::string("\xFF\xFE\xFC\0", 4))), "\u00fc");
  EXPECT_EQ(text_of("gr\xFC\xDF", "latin1"), "gr\u00fc\u00df");
  EXPECT_EQ(text_of("gr\xFC\xDF", "latin-1"), "gr\u00fc\u00df") << "as Python names it";
  EXPECT_EQ(text_of("gr\xFC\xDF", "iso8859_1"), "gr\u00fc\u00df");
  EXPECT_EQ(text_of(std::string("g\0", 2), "utf-16-le"), "g");
  EXPECT_EQ(text_of("\x93x\x94", "cp1252"), "\u201cx\u201d");
  EXPECT_EQ(text_of(std::string("a\0b\0", 4), "utf-16le"), "ab");
  EXPECT_EQ(text_of(""), "");
}

TEST_F(TextFiles, OfOtherFormatsAreRefusedByName) {
  EXPECT_NE(refused("PAR1\x15\x04").find("is a Parquet file, not text"), std::string::npos);
  EXPECT_NE(refused(std::string("PK\x03\x04\x14\0", 6)).find("is a zip archive"), std::string::npos);
  EXPECT_NE(refused("\x89PNG\r\n\x1A\n").find("is a PNG image"), std::string::npos);
  EXPECT_NE(refused("\xFF\xD8\xFF\xE0").find("is a JPEG image"), std::string::npos);
  EXPECT_NE(refused("%PDF-1.7\n").find("is a PDF document"), std::string::npos);
  EXPECT_NE(refused(gzipped(std::string("x\0y", 3))).find("is binary data"), std::string::npos);
  EXPECT_EQ(text_of("ORCHARDS and ID3 tags"), "ORCHARDS and ID3 tags") << "words are no signature";
}

TEST_F(TextFiles, ThatAreDamagedAreRefused) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919);
  std::string cut = gzipped(text);
  cut.resize(cut.size() / 2);
  EXPECT_NE(refused(cut).find("gzip: cannot be unpacked: "), std::string::npos) << refused(cut);
  cut = zstandard(text);
  cut.resize(cut.size() / 2);
  EXPECT_NE(refused(cut).find("zstd: cannot be unpacked: it ends too early"), std::string::npos)
      << refused(cut);
  EXPECT_NE(refused("\xFF\xFE\x01\xD8\x01\xD8").find("is not UTF-16"), std::string::npos);
  EXPECT_THROW(text_of("x", "latin-one"), InvalidConfig);
}

}  // namespace
}  // namespace ingot::data

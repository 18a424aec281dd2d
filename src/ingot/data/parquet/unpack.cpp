#include "ingot/data/parquet/unpack.h"

#include <array>
#include <cstdint>
#include <memory>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include "ingot/base/shared_library.h"

namespace ingot::data::parquet {
namespace {

// Few files are packed with Brotli, so its library is opened when one is.
struct Brotli {
  SharedLibrary library;
  int (*decompress)(std::size_t, const std::uint8_t*, std::size_t*, std::uint8_t*) = nullptr;

  Brotli() : library(std::array<std::string, 1>{"libbrotlidec.so.1"}) {
    library.find(decompress, "BrotliDecoderDecompress");
  }
};

bool unpack_brotli(std::string_view packed, std::string& out, const Location& location) {
  static const Brotli kBrotli;
  if (kBrotli.decompress == nullptr)
    location.fail(fmt::format(
        "is packed with Brotli, whose library is not there ({}); install libbrotli1, or write the "
        "file with another compression",
        kBrotli.library.problem()));
  std::size_t size = out.size();
  const int state = kBrotli.decompress(packed.size(), reinterpret_cast<const std::uint8_t*>(packed.data()),
                                       &size, reinterpret_cast<std::uint8_t*>(out.data()));
  return state == 1 && size == out.size();
}

bool unpack_gzip(std::string_view packed, std::string& out) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return false;
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());  // sizes of pages have 31 bits
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  return inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
}

bool unpack_zstd(std::string_view packed, std::string& out) {
  return ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size()) == out.size();
}

constexpr std::array<std::string_view, 9> kCodecs{"none", "Snappy", "gzip", "LZO", "Brotli",
                                                  "LZ4",  "zstd",   "LZ4",  "LZ4"};

}  // namespace

std::string unpack(std::string_view packed, std::size_t size, Codec codec, const Location& location) {
  std::string out(size, '\0');
  bool good = false;
  switch (codec) {
    case Codec::none:
      location.fail("is not packed");
    case Codec::snappy:
      good = unpack_snappy(packed, out);
      break;
    case Codec::gzip:
      good = unpack_gzip(packed, out);
      break;
    case Codec::brotli:
      good = unpack_brotli(packed, out, location);
      break;
    case Codec::zstd:
      good = unpack_zstd(packed, out);
      break;
    case Codec::lz4:
      good = unpack_lz4(packed, out);
      break;
    case Codec::lz4_frame:
      good = unpack_lz4_frame(packed, out);
      break;
    case Codec::lzo:
    case Codec::lz4_hadoop:
      location.fail(
          fmt::format("is packed with {}, which is not read; write the file with snappy, gzip, zstd, "
                      "lz4_raw, brotli or no compression",
                      codec == Codec::lzo ? "LZO" : "the old framing of LZ4"));
  }
  if (!good)
    location.fail(
        fmt::format("{} bytes of {} do not unpack to the {} that its header tells of; the file is damaged",
                    packed.size(), kCodecs[static_cast<std::size_t>(codec)], size));
  return out;
}

}  // namespace ingot::data::parquet

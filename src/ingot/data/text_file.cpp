#include "ingot/data/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <iconv.h>
#include <zlib.h>
#include <zstd.h>

#include "ingot/base/error.h"

namespace ingot::data {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
// Text packs to a third up to a thirtieth; what packs far better and is large is an attack or a mistake.
constexpr std::size_t kSmall = std::size_t{256} << 20, kMostRatio = 250;

void check_size(const std::string& path, std::size_t packed, std::size_t unpacked) {
  INGOT_CHECK(unpacked <= kSmall || unpacked / kMostRatio <= packed,
              FormatError(path, 0, "packed data",
                          fmt::format("{} bytes unpack to more than {}, as no text does", packed, unpacked)));
}

[[noreturn]] void fail_damaged(const std::string& path, std::size_t at, const char* what,
                               std::string_view problem) {
  throw FormatError(path, static_cast<std::int64_t>(at), what,
                    fmt::format("cannot be unpacked: {}; it is damaged or cut short", problem));
}

// Up to `most` bytes; `path` empty: nothing is thrown, what could be unpacked is returned.
std::string gunzip(std::string_view packed, const std::string& path, std::size_t most = std::string::npos) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) throw Error("zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  std::string out;
  std::size_t read = 0;
  int state = Z_OK;
  while (out.size() < most) {
    if (state == Z_STREAM_END) {  // several members are one file
      read -= stream.avail_in;
      stream.avail_in = 0;
      if (read == packed.size() || packed[read] == '\0') break;
      if (inflateReset(&stream) != Z_OK) break;
    }
    if (stream.avail_in == 0) {
      const std::size_t part = std::min(packed.size() - read, kChunk);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + read));
      stream.avail_in = static_cast<uInt>(part);
      read += part;
    }
    const std::size_t before = out.size(), room = std::min(kChunk, most - before);
    out.resize(before + room);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    state = inflate(&stream, Z_NO_FLUSH);
    out.resize(before + room - stream.avail_out);
    if (state == Z_OK || state == Z_STREAM_END) {
      if (!path.empty()) check_size(path, packed.size(), out.size());
      continue;
    }
    if (path.empty()) break;
    fail_damaged(path, read - stream.avail_in, "gzip",
                 stream.msg != nullptr ? stream.msg : "it ends too early");
  }
  return out;
}

std::string unzstd(std::string_view packed, const std::string& path, std::size_t most = std::string::npos) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                             ZSTD_freeDStream);
  std::string out;
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  std::size_t state = 1;
  while (out.size() < most && (in.pos < in.size || state != 0)) {
    const std::size_t before = out.size(), room = std::min(kChunk, most - before);
    out.resize(before + room);
    ZSTD_outBuffer to{out.data() + before, room, 0};
    const std::size_t in_before = in.pos;
    state = ZSTD_decompressStream(stream.get(), &to, &in);
    out.resize(before + to.pos);
    const bool stuck = to.pos == 0 && in.pos == in_before && state != 0;
    if (ZSTD_isError(state) == 0U && !stuck) {
      if (!path.empty()) check_size(path, packed.size(), out.size());
      continue;
    }
    if (path.empty()) break;
    fail_damaged(path, in.pos, "zstd", stuck ? "it ends too early" : ZSTD_getErrorName(state));
  }
  return out;
}

// As iconv names an encoding, or as Python does: latin-1, utf_8, utf-16-le.
iconv_t open_converter(const std::string& encoding) {
  std::string hyphens = encoding, bare;
  std::ranges::replace(hyphens, '_', '-');
  std::ranges::copy_if(hyphens, std::back_inserter(bare), [](char c) { return c != '-'; });
  const auto failed = reinterpret_cast<iconv_t>(-1);
  iconv_t opened = failed;
  for (const std::string& name : {encoding, hyphens, bare}) {
    if (opened == failed) opened = iconv_open("UTF-8", name.c_str());
  }
  return opened;
}

std::string decoded(std::string_view text, const std::string& encoding, const std::string& path) {
  const iconv_t opened = open_converter(encoding);
  INGOT_CHECK(opened != reinterpret_cast<iconv_t>(-1),
              InvalidConfig("encoding", fmt::format("'{}' is not known; expected a name that iconv has "
                                                    "(iconv -l), as latin1, cp1252, shift_jis, utf-16le",
                                                    encoding)));
  const std::unique_ptr<std::remove_pointer_t<iconv_t>, int (*)(iconv_t)> converter(opened, iconv_close);
  std::string out;
  char* in = const_cast<char*>(text.data());
  std::size_t left = text.size();
  std::string part(kChunk, '\0');
  while (left > 0) {
    char* to = part.data();
    std::size_t room = part.size();
    const std::size_t result = iconv(opened, &in, &left, &to, &room);
    const int problem = errno;
    out.append(part.data(), part.size() - room);
    if (result != static_cast<std::size_t>(-1) || problem == E2BIG) continue;
    throw FormatError(path, static_cast<std::int64_t>(text.size() - left), "text",
                      fmt::format("is not {}; name the file's encoding, or convert it (iconv)", encoding));
  }
  return out;
}

std::string_view without_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

}  // namespace

namespace {

std::string_view advice_for(const Content& content) {
  if (content.kind == ContentKind::parquet || content.arrow())
    return "it is read where records or a table are expected; save its text as a file of text here";
  return "expected text in UTF-8, or gzip or zstd of it, or UTF-16 with a byte order mark ('encoding' names "
         "others)";
}

}  // namespace

void check_is_text(const std::string& path, const Content& content, const std::string& encoding) {
  const bool readable =
      content.kind == ContentKind::text || (content.kind == ContentKind::zeros && !encoding.empty());
  INGOT_CHECK(readable, FormatError(path, 0, "text",
                                    fmt::format("is {}, not text; {}", content.name, advice_for(content))));
}

TextFile::TextFile(const std::string& path, const std::string& encoding)
    : file_(path, MappedFile::Access::sequential), text_(file_.text()) {
  // A file may be packed and in another encoding.
  Content content = content_of(text_.substr(0, 8192));
  if (content.kind == ContentKind::gzip || content.kind == ContentKind::zstd) {
    owned_ = content.kind == ContentKind::gzip ? gunzip(text_, path) : unzstd(text_, path);
    text_ = owned_;
    content = content_of(text_.substr(0, 8192));
  }
  const bool utf16 = content.kind == ContentKind::utf16, utf32 = content.kind == ContentKind::utf32;
  const bool marked = utf16 || utf32;
  if (!marked) check_is_text(path, content, encoding);
  if (marked || !encoding.empty()) {
    owned_ = decoded(text_, marked ? (utf16 ? "UTF-16" : "UTF-32") : encoding, path);
    text_ = owned_;
  }
  text_ = without_mark(text_);
}

std::string read_text_file(const std::string& path, const std::string& encoding) {
  return std::string(TextFile(path, encoding).text());
}

std::string head_of(std::string_view file, std::size_t size) {
  const std::string_view head = file.substr(0, size);
  const ContentKind kind = content_of(head).kind;
  if (kind == ContentKind::gzip) return gunzip(file, "", size);
  if (kind == ContentKind::zstd) return unzstd(file, "", size);
  return std::string(head);
}

std::string_view without_packed_ending(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst", ".zstd"}) {
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

std::size_t find_invalid_utf8(std::string_view text, std::size_t from) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  const std::size_t size = text.size();
  for (std::size_t i = from; i < size;) {
    std::uint64_t eight = 0;
    if (i + 8 <= size && (std::memcpy(&eight, bytes + i, 8), (eight & 0x8080808080808080U) == 0)) {
      i += 8;
      continue;
    }
    const unsigned char lead = bytes[i];
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || i + length > size) return i;
    // The second byte's range rules out overlong forms, surrogates and what is beyond U+10FFFF.
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (bytes[i + 1] < low || bytes[i + 1] > high) return i;
    for (std::size_t k = 2; k < length; ++k) {
      if (bytes[i + k] < 0x80 || bytes[i + k] > 0xBF) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace ingot::data

#include "ingot/data/content_kind.h"

#include <algorithm>
#include <array>

namespace ingot::data {
namespace {

struct Signature {
  std::string_view bytes;
  Content content;
  std::size_t at = 0;
};

template <std::size_t N>
constexpr std::string_view bytes(const char (&literal)[N]) {
  return {literal, N - 1};  // zeros among them
}

constexpr Content other(std::string_view name) { return {ContentKind::binary, name}; }

constexpr std::string_view kArrow = "an Arrow file";

constexpr std::array kSignatures{
    Signature{bytes("\x1F\x8B"), {ContentKind::gzip, "gzip"}},
    Signature{bytes("\x28\xB5\x2F\xFD"), {ContentKind::zstd, "zstd"}},
    Signature{bytes("\xFF\xFE\0\0"), {ContentKind::utf32, "UTF-32"}},
    Signature{bytes("\0\0\xFE\xFF"), {ContentKind::utf32, "UTF-32"}},
    Signature{bytes("\xFF\xFE"), {ContentKind::utf16, "UTF-16"}},
    Signature{bytes("\xFE\xFF"), {ContentKind::utf16, "UTF-16"}},
    Signature{bytes("PAR1"), {ContentKind::parquet, "a Parquet file"}},
    Signature{bytes("ARROW1"), other(kArrow)},
    Signature{bytes("\xFF\xFF\xFF\xFF"), other(kArrow)},  // a stream of record batches, as datasets saves
    Signature{bytes("ORC"), other("an ORC file")},
    Signature{bytes("Obj\x01"), other("an Avro file")},
    Signature{bytes("PK\x03\x04"), other("a zip archive (or a file that is one: xlsx, docx, npz, epub)")},
    Signature{bytes("PK\x05\x06"), other("an empty zip archive")},
    Signature{bytes("BZh"), other("bzip2 data")},
    Signature{bytes("\xFD"
                    "7zXZ\0"),
              other("xz data")},
    Signature{bytes("7z\xBC\xAF\x27\x1C"), other("a 7z archive")},
    Signature{bytes("Rar!\x1A"), other("a RAR archive")},
    Signature{bytes("\x04\x22\x4D\x18"), other("lz4 data")},
    Signature{bytes("ustar"), other("a tar archive"), 257},
    Signature{bytes("%PDF-"), other("a PDF document")},
    Signature{bytes("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), other("an old Office document")},
    Signature{bytes("{\\rtf"), other("an RTF document")},
    Signature{bytes("\x89PNG\r\n"), other("a PNG image")},
    Signature{bytes("\xFF\xD8\xFF"), other("a JPEG image")},
    Signature{bytes("GIF8"), other("a GIF image")},
    Signature{bytes("II*\0"), other("a TIFF image")},
    Signature{bytes("MM\0*"), other("a TIFF image")},
    Signature{bytes("RIFF"), other("a RIFF file (WebP, WAV, AVI)")},
    Signature{bytes("ftyp"), other("an MP4 video"), 4},
    Signature{bytes("OggS"), other("an Ogg file")},
    Signature{bytes("fLaC"), other("a FLAC file")},
    Signature{bytes("ID3"), other("an MP3 file")},
    Signature{bytes("SQLite format 3\0"), other("an SQLite database")},
    Signature{bytes("\x89HDF\r\n"), other("an HDF5 file")},
    Signature{bytes("\x93NUMPY"), other("a NumPy array")},
    Signature{bytes("GGUF"), other("a GGUF model")},
    Signature{bytes("\x7F"
                    "ELF"),
              other("a program (ELF)")},
    Signature{bytes("\x80\x02"), other("a Python pickle")},
    Signature{bytes("\x80\x03"), other("a Python pickle")},
    Signature{bytes("\x80\x04"), other("a Python pickle")},
    Signature{bytes("\x80\x05"), other("a Python pickle")},
};

// Words of text can begin like a signature of letters ("ORC", "ID3 tags", "BZh").
bool may_be_words(const Signature& signature) {
  for (const char c : signature.bytes) {
    const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!letter) return false;
  }
  return true;
}

// Bytes that no text has: control characters but for white space, backspace and escape.
bool has_control_bytes(std::string_view head) {
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && (byte < 0x08 || byte > 0x0D) && byte != 0x1B) return true;
  }
  return false;
}

}  // namespace

bool Content::arrow() const { return name == kArrow; }

Content content_of(std::string_view head) {
  const bool control = has_control_bytes(head);
  for (const Signature& signature : kSignatures) {
    if (head.substr(std::min(signature.at, head.size())).substr(0, signature.bytes.size()) != signature.bytes)
      continue;
    if (may_be_words(signature) && !control) continue;
    return signature.content;
  }
  if (head.find('\0') != std::string_view::npos)
    return {ContentKind::zeros, "binary data, or UTF-16 without a byte order mark"};
  return {};
}

bool is_parquet(std::string_view file) {
  return content_of(file.substr(0, 8192)).kind == ContentKind::parquet;
}

}  // namespace ingot::data

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

/// SHA-256, fed in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// Ends the message. Nothing may be fed after it.
  std::array<std::uint8_t, 32> finish();
  /// The same as 64 lower-case hexadecimal digits.
  std::string finish_hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

/// Of a file's content; IoError where it cannot be read.
std::string sha256_file(const std::string& path);

/// CRC-32C (Castagnoli), as in TFRecord files; crc32c("123456789") is 0xE3069283.
std::uint32_t crc32c(std::string_view bytes);
/// The same, turned and shifted as TensorFlow and LevelDB store it: a CRC of bytes that hold a CRC means
/// little.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace ingot

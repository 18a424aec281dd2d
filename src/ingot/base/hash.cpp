#include "ingot/base/hash.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"

namespace ingot {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  INGOT_CHECK(context_->evp != nullptr && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1,
              Error("SHA-256 is not available in this OpenSSL"));
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  INGOT_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1, Error("SHA-256 failed"));
}
void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::array<std::uint8_t, 32> Sha256::finish() {
  std::array<std::uint8_t, 32> digest{};
  unsigned size = 0;
  INGOT_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), &size) == 1 && size == digest.size(),
              Error("SHA-256 failed"));
  return digest;
}

std::string Sha256::finish_hex() {
  std::string hex;
  for (const std::uint8_t byte : finish()) fmt::format_to(std::back_inserter(hex), "{:02x}", byte);
  return hex;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish_hex();
}
std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

std::string sha256_file(const std::string& path) {
  const MappedFile file(path, MappedFile::Access::sequential);
  constexpr std::size_t kBlock = std::size_t{8} << 20;
  Sha256 hash;
  for (std::size_t at = 0; at < file.bytes().size(); at += kBlock) {
    hash.update(file.bytes().subspan(at, std::min(kBlock, file.bytes().size() - at)));
    file.will_not_need(at, kBlock);  // else a file as large as the model counts as the process' memory
  }
  return hash.finish_hex();
}

namespace {

// Both take and return the register, which begins and ends inverted.
std::uint32_t crc32c_by_table(std::uint32_t crc, std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
      table[i] = value;
    }
    return table;
  }();
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
// The instruction of SSE4.2 takes eight bytes at once: 15 times as fast, so that hashing a model's
// weights costs what reading them does.
[[gnu::target("sse4.2")]] std::uint32_t crc32c_by_instruction(std::uint32_t crc, std::string_view bytes) {
  std::uint64_t wide = crc;
  for (; bytes.size() >= sizeof wide; bytes.remove_prefix(sizeof wide)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  return crc32c_by_table(static_cast<std::uint32_t>(wide), bytes);
}
#endif

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~crc32c_by_instruction(~0U, bytes);
#endif
  return ~crc32c_by_table(~0U, bytes);
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8U;
}

}  // namespace ingot

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/hub/s3.h"

namespace ingot::hub {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  INGOT_CHECK(done != nullptr, Error("HMAC-SHA256 is not available in this OpenSSL"));
  return {reinterpret_cast<const char*>(digest.data()), size};
}

}  // namespace

std::string sigv4_authorization(const std::string& method, const std::string& path, const std::string& query,
                                HttpHeaders headers, const std::string& payload_sha256,
                                const S3Credentials& credentials, const std::string& region) {
  std::ranges::sort(headers);
  std::string lines, names, time;
  for (const auto& [name, value] : headers) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
    if (name == "x-amz-date") time = value;
  }
  INGOT_ASSERT(time.size() == 16);  // 20130524T000000Z
  const std::string day = time.substr(0, 8);
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", method, path, query, lines, names, payload_sha256);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, region);
  const std::string to_sign = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, scope, sha256_hex(canonical));
  std::string key = "AWS4" + credentials.secret_key;
  for (const std::string& part : {day, region, std::string("s3"), std::string("aws4_request")}) {
    key = hmac(key, part);
  }
  std::string signature;
  for (const char c : hmac(key, to_sign)) {
    fmt::format_to(std::back_inserter(signature), "{:02x}", static_cast<unsigned char>(c));
  }
  return fmt::format("{} Credential={}/{},SignedHeaders={},Signature={}", kAlgorithm, credentials.access_key,
                     scope, names, signature);
}

}  // namespace ingot::hub

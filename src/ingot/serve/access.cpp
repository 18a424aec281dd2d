#include "ingot/serve/access.h"

#include <algorithm>
#include <sstream>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/serve/api_error.h"

namespace ingot::serve {
namespace {

std::string sha256(std::string_view text) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

// The key that a request brings: as OpenAI's clients send it, or Anthropic's.
std::string_view key_of(const HttpRequest& request) {
  constexpr std::string_view kBearer = "bearer ";
  const std::string_view authorization = request.header("authorization");
  const bool bearer = authorization.size() > kBearer.size() &&
                      std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer,
                                         [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  return bearer ? authorization.substr(kBearer.size()) : request.header("x-api-key");
}

// "[::1]:8000" and "localhost:8000" without the port.
std::string_view host_name(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_address(std::string_view host) {
  return host.starts_with('[') ||
         (!host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

bool holds(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

}  // namespace

Access::Access(const AccessOptions& options) : options_(options) {
  for (const std::string& key : options_.keys) {
    INGOT_CHECK(!key.empty(), InvalidConfig("api_key", "is empty"));
    hashes_.push_back(sha256(key));
  }
  options_.keys.clear();
}

void Access::check(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (has_keys()) {
    const std::string hash = sha256(key_of(request));
    bool known = false;  // every key is compared, each in constant time
    for (const std::string& each : hashes_)
      known |= CRYPTO_memcmp(each.data(), hash.data(), hash.size()) == 0;
    if (!known) {
      throw ApiError(401, "a valid API key is needed: send it as 'Authorization: Bearer KEY'", {},
                     "invalid_api_key");
    }
    return;
  }
  if (!allows_host(request.header("host")))
    throw ApiError(403, "this host name is not allowed without API keys; --allowed-host adds it", {}, "host");
  const bool own_page = origin.ends_with(std::string("://").append(request.header("host")));
  if (!origin.empty() && !own_page && !allows_origin(origin))
    throw ApiError(403, "web pages of this origin are not allowed; --cors-origin adds it", {}, "origin");
}

bool Access::allows_origin(std::string_view origin) const {
  return holds(options_.allowed_origins, origin) || holds(options_.allowed_origins, "*");
}

bool Access::allows_host(std::string_view host) const {
  const std::string_view name = host_name(host);
  return name.empty() || name == "localhost" || is_address(name) || holds(options_.allowed_hosts, name);
}

HttpHeaders Access::cors_headers(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !allows_origin(origin)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Vary", "Origin"},
          {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
          {"Access-Control-Allow-Headers", "authorization, content-type, x-api-key"},
          {"Access-Control-Max-Age", "600"}};
}

std::vector<std::string> read_key_file(const std::string& path) {
  std::vector<std::string> keys;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    keys.push_back(line.substr(first, last + 1 - first));
  }
  INGOT_CHECK(!keys.empty(), InvalidConfig("api_key_file", path + " has no key; it holds one a line"));
  return keys;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace ingot::serve

#include "ingot/serve/access.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include <fmt/format.h>
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

// Empty where the text is not hexadecimal.
std::string from_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    const auto read = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (read.ec != std::errc{} || read.ptr != text.data() + i + 2) return {};
    bytes += static_cast<char>(value);
  }
  return text.size() % 2 == 0 ? bytes : std::string();
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

constexpr std::int64_t kMostPriority = 1'000'000;

// "rpm=60": false where it is another setting, or its number is wrong.
bool read_setting(std::string_view word, std::string_view name, std::int64_t least, std::int64_t& value) {
  if (!word.starts_with(name)) return false;
  const char* end = word.data() + word.size();
  std::int64_t number = 0;
  const auto read = std::from_chars(word.data() + name.size(), end, number);
  if (read.ec != std::errc{} || read.ptr != end || number < least || number > kMostPriority) return false;
  value = number;
  return true;
}

bool holds(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

}  // namespace

Access::Access(const AccessOptions& options) : options_(options) {
  has_keys_ = !options_.keys.empty() || !options_.key_file.empty();
  for (std::string& key : options_.keys) {
    INGOT_CHECK(!key.empty(), InvalidConfig("api_key", "is empty"));
    key = sha256(key);
  }
  reload();
}

void Access::reload() {
  std::vector<AccessKey> keys;
  for (const std::string& hash : options_.keys) keys.push_back({.hash = hash});
  if (!options_.key_file.empty()) {
    for (AccessKey& key : read_key_file(options_.key_file)) keys.push_back(std::move(key));
  }
  const std::lock_guard lock(mutex_);
  std::vector<Known> known;
  for (AccessKey& key : keys) {
    const auto before =
        std::ranges::find_if(keys_, [&](const Known& each) { return each.key.hash == key.hash; });
    const double left = before != keys_.end() && before->key.posts_a_minute > 0
                            ? before->left
                            : static_cast<double>(key.posts_a_minute);
    known.push_back({.key = std::move(key), .left = left, .since = Clock::now()});
  }
  keys_ = std::move(known);
}

// The key that a request brings, null where it is none of ours. Every key is compared, each in constant time.
Access::Known* Access::find(const HttpRequest& request) const {
  const std::string hash = sha256(key_of(request));
  Known* found = nullptr;
  for (Known& each : keys_)
    if (CRYPTO_memcmp(each.key.hash.data(), hash.data(), hash.size()) == 0) found = &each;
  return found;
}

Client Access::client(const HttpRequest& request) const {
  if (!has_keys_) return {};
  const std::lock_guard lock(mutex_);
  const Known* known = find(request);
  if (known == nullptr) return {.may_go_first = false};  // the key was taken away meanwhile
  return {.name = known->key.hash, .priority = known->key.priority, .may_go_first = false};
}

void Access::check_key(const HttpRequest& request) const {
  const std::lock_guard lock(mutex_);
  Known* found = find(request);
  if (found == nullptr) {
    throw ApiError(401, "a valid API key is needed: send it as 'Authorization: Bearer KEY'", {},
                   "invalid_api_key");
  }
  const auto most = static_cast<double>(found->key.posts_a_minute);
  if (most == 0 || request.method != "POST") return;
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(found->since, now)).count();
  found->left = std::min(most, found->left + seconds * most / 60);
  if (found->left < 1) {
    throw ApiError(429, fmt::format("this key may send {} requests a minute", found->key.posts_a_minute), {},
                   "rate_limit_exceeded");
  }
  found->left -= 1;
}

void Access::check_admin(const HttpRequest& request) const {
  if (!has_keys_) return;
  const std::lock_guard lock(mutex_);
  const Known* known = find(request);
  if (known == nullptr || !known->key.admin)
    throw ApiError(403,
                   "this key may not change what is served; put 'admin' behind it in the key file "
                   "(--api-key-file)",
                   {}, "admin_needed");
}

void Access::check(const HttpRequest& request) const {
  if (has_keys_) return check_key(request);
  const std::string_view origin = request.header("origin");
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

std::vector<AccessKey> read_key_file(const std::string& path) {
  std::vector<AccessKey> keys;
  std::istringstream lines(read_file(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word.starts_with('#')) continue;
    const auto wrong = [&](const std::string& problem) {
      return InvalidConfig("api_key_file", fmt::format("{}, line {}: {}", path, number, problem));
    };
    constexpr std::string_view kHash = "sha256:";
    AccessKey key;
    if (word.starts_with(kHash)) {
      key.hash = from_hex(std::string_view(word).substr(kHash.size()));
      if (key.hash.size() != SHA256_DIGEST_LENGTH) throw wrong("sha256: wants 64 hexadecimal digits");
    } else {
      key.hash = sha256(word);
    }
    while (words >> word) {
      if (word == "admin") key.admin = true;
      const bool known = word == "admin" || read_setting(word, "rpm=", 1, key.posts_a_minute) ||
                         read_setting(word, "priority=", -kMostPriority, key.priority);
      if (!known)
        throw wrong(
            fmt::format("'{}' is not known behind a key; write rpm=60, priority=5 or admin, say", word));
    }
    keys.push_back(std::move(key));
  }
  INGOT_CHECK(!keys.empty(), InvalidConfig("api_key_file", path + " has no key; it holds one a line"));
  return keys;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace ingot::serve

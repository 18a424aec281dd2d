#include "ingot/serve/access.h"

#include <algorithm>
#include <charconv>
#include <cmath>
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

constexpr std::int64_t kMostPriority = 1'000'000, kMostTokens = 1'000'000'000'000;
constexpr double kDay = 86'400;

// "rpm=60": false where it is another setting, or its number is wrong.
bool read_setting(std::string_view word, std::string_view name, std::int64_t least, std::int64_t most,
                  std::int64_t& value) {
  if (!word.starts_with(name)) return false;
  const char* end = word.data() + word.size();
  std::int64_t number = 0;
  const auto read = std::from_chars(word.data() + name.size(), end, number);
  if (read.ec != std::errc{} || read.ptr != end || number < least || number > most) return false;
  value = number;
  return true;
}

// "models=small,tuned".
bool read_models(std::string_view word, std::vector<std::string>& models) {
  constexpr std::string_view kName = "models=";
  if (!word.starts_with(kName)) return false;
  std::istringstream names{std::string(word.substr(kName.size()))};
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty()) return false;
    models.push_back(std::move(name));
  }
  return !models.empty();
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
    Known now{.key = std::move(key), .day = {.seconds = kDay}};
    const Known* const same = before != keys_.end() ? &*before : nullptr;
    now.posts.set(now.key.posts_a_minute, same != nullptr ? &same->posts : nullptr);
    now.minute.set(now.key.tokens_a_minute, same != nullptr ? &same->minute : nullptr);
    now.day.set(now.key.tokens_a_day, same != nullptr ? &same->day : nullptr);
    known.push_back(std::move(now));
  }
  keys_ = std::move(known);
}

// A file that is read again gives nothing back of what was taken.
void Access::Allowance::set(std::int64_t limit, const Allowance* before) {
  most = static_cast<double>(limit);
  since = Clock::now();
  left = before != nullptr && before->most > 0 ? std::min(most, before->left) : most;
}

void Access::Allowance::refill(Clock::time_point now) {
  const double passed = std::chrono::duration<double>(now - std::exchange(since, now)).count();
  left = std::min(most, left + passed * most / seconds);
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
  if (!has_keys_) return {.admin = true};
  const std::lock_guard lock(mutex_);
  const Known* known = find(request);
  if (known == nullptr) return {.may_go_first = false};  // the key was taken away meanwhile
  return {.name = known->key.hash,
          .admin = known->key.admin,
          .priority = known->key.priority,
          .may_go_first = false};
}

namespace {

ApiError too_many(std::string_view what, double seconds_to_wait) {
  ApiError error(429, fmt::format("this key may {}", what), {}, "rate_limit_exceeded");
  error.retry_after = static_cast<std::int64_t>(std::ceil(seconds_to_wait));
  return error;
}

}  // namespace

void Access::check_key(const HttpRequest& request) const {
  const std::lock_guard lock(mutex_);
  Known* found = find(request);
  if (found == nullptr) {
    throw ApiError(401, "a valid API key is needed: send it as 'Authorization: Bearer KEY'", {},
                   "invalid_api_key");
  }
  if (request.method != "POST") return;
  const auto now = Clock::now();
  const auto check = [now](Allowance& allowance, double amount, std::string_view what) {
    if (allowance.most == 0) return;
    allowance.refill(now);
    if (allowance.left >= amount) return;
    throw too_many(what, allowance.wait_for(amount));
  };
  check(found->minute, 1, fmt::format("take {} tokens a minute", found->key.tokens_a_minute));
  check(found->day, 1, fmt::format("take {} tokens a day", found->key.tokens_a_day));
  check(found->posts, 1, fmt::format("send {} requests a minute", found->key.posts_a_minute));
  found->posts.left -= 1;
}

bool Access::allows_model(const HttpRequest& request, const std::string& name) const {
  if (!has_keys_) return true;
  const std::lock_guard lock(mutex_);
  const Known* known = find(request);
  return known != nullptr && (known->key.models.empty() || holds(known->key.models, name));
}

void Access::check_model(const HttpRequest& request, const std::string& name) const {
  if (!allows_model(request, name))
    throw ApiError(403, fmt::format("this key may not ask for the model '{}'", name), "model",
                   "model_not_allowed");
}

void Access::charge(const Client& client, std::int64_t tokens) const {
  if (!has_keys_) return;
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(keys_, [&](const Known& each) { return each.key.hash == client.name; });
  if (found == keys_.end()) return;  // taken away meanwhile
  const auto now = Clock::now();
  for (Allowance* allowance : {&found->minute, &found->day}) {
    if (allowance->most == 0) continue;
    allowance->refill(now);
    allowance->left -= static_cast<double>(tokens);
  }
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
      const bool known = word == "admin" || read_models(word, key.models) ||
                         read_setting(word, "rpm=", 1, kMostPriority, key.posts_a_minute) ||
                         read_setting(word, "tpm=", 1, kMostTokens, key.tokens_a_minute) ||
                         read_setting(word, "tpd=", 1, kMostTokens, key.tokens_a_day) ||
                         read_setting(word, "priority=", -kMostPriority, kMostPriority, key.priority);
      if (!known)
        throw wrong(
            fmt::format("'{}' is not known behind a key; write rpm=60, tpm=20000, tpd=1000000, "
                        "models=small,tuned, priority=5 or admin, say",
                        word));
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

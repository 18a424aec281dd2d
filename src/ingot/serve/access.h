#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/serve/http.h"

namespace ingot::serve {

struct AccessOptions {
  std::vector<std::string> keys{};             ///< any of which lets a request in; none: everybody may
  std::string key_file{};                      ///< with more of them, as read_key_file() has it; empty: none
  std::vector<std::string> allowed_origins{};  ///< of web pages that may use the server ("*": all)
  /// Names beside localhost and addresses that a Host header may have where there are no keys: a web page
  /// can have its own name point at this machine.
  std::vector<std::string> allowed_hosts{};
};

/// A key that lets requests in.
struct AccessKey {
  std::string hash;                 ///< SHA-256 of the key, 32 bytes
  std::int64_t posts_a_minute = 0;  ///< 0: any number
  /// Read and written ones of all its requests; 0: any number.
  std::int64_t tokens_a_minute = 0, tokens_a_day = 0;
  std::vector<std::string> models{};  ///< names that its requests may ask for; empty: all
  std::int64_t priority = 0;          ///< of its requests; the smaller goes first
  bool admin = false;                 ///< may change what the server serves
};

/// Who sent a request.
struct Client {
  std::string name{};         ///< of the key; empty without keys
  bool admin = false;         ///< its key has that right, or there are no keys
  std::int64_t priority = 0;  ///< where the request says nothing
  bool may_go_first = true;   ///< whether its requests may ask for a smaller one
};

/// Who may use the server. Any thread may use it.
class Access {
 public:
  /// Throws as read_key_file() does.
  explicit Access(const AccessOptions& options);

  /// Reads the file of keys again; throws as read_key_file() does, and leaves the keys as they were.
  void reload();
  /// Of a request that check() has let in.
  Client client(const HttpRequest& request) const;
  /// Throws ApiError 401 (key), 403 (host, origin) or 429 (more requests than its key may send, or no tokens
  /// are left to it).
  void check(const HttpRequest& request) const;
  /// Whether a request that check() has let in may ask for this model, or adapter, by this name.
  bool allows_model(const HttpRequest& request, const std::string& name) const;
  /// Throws ApiError 403 where it may not.
  void check_model(const HttpRequest& request, const std::string& name) const;
  /// Takes tokens, which were read or written for a client, from what is left to it. That may become less
  /// than nothing: what a request will take is not known before.
  void charge(const Client& client, std::int64_t tokens) const;
  /// Of a request that check() has let in and that changes what is served: throws ApiError 403 where there
  /// are keys, and its own has no such right.
  void check_admin(const HttpRequest& request) const;
  /// Access-Control headers for the request's origin; none where it has none or may not.
  HttpHeaders cors_headers(const HttpRequest& request) const;

 private:
  using Clock = std::chrono::steady_clock;
  // What may be had at a rate: so many at once, which come back over the period.
  struct Allowance {
    double most = 0;  // 0: any number
    double seconds = 60;
    double left = 0;
    Clock::time_point since{};

    void set(std::int64_t limit, const Allowance* before);
    void refill(Clock::time_point now);
    /// Until so much is there.
    double wait_for(double amount) const { return (amount - left) * seconds / most; }
  };
  struct Known {
    AccessKey key;
    Allowance posts{}, minute{}, day{};  // the latter two of tokens
  };
  Known* find(const HttpRequest& request) const;
  void check_key(const HttpRequest& request) const;
  bool allows_origin(std::string_view origin) const;
  bool allows_host(std::string_view host) const;

  AccessOptions options_;
  bool has_keys_ = false;
  mutable std::mutex mutex_;
  mutable std::vector<Known> keys_;
};

/// The keys of a file, one a line: the key, or "sha256:" and its hash in hexadecimal; behind it perhaps
/// "rpm=60", the requests a minute that it may send (POST), "tpm=20000" and "tpd=1000000", the tokens a
/// minute and a day, "models=small,tuned", "priority=5", and "admin". Empty lines and those that begin with #
/// count as nothing. InvalidConfig naming the line where one is wrong, and where there is no key.
std::vector<AccessKey> read_key_file(const std::string& path);

/// Whether only this machine can reach an address.
bool is_loopback(std::string_view host);

}  // namespace ingot::serve

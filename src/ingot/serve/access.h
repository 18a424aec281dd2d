#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/serve/http.h"

namespace ingot::serve {

struct AccessOptions {
  std::vector<std::string> keys{};             ///< any of which lets a request in; none: everybody may
  std::vector<std::string> allowed_origins{};  ///< of web pages that may use the server ("*": all)
  /// Names beside localhost and addresses that a Host header may have where there are no keys: a web page
  /// can have its own name point at this machine.
  std::vector<std::string> allowed_hosts{};
};

/// Who may use the server.
class Access {
 public:
  explicit Access(const AccessOptions& options);

  bool has_keys() const { return !hashes_.empty(); }
  /// Throws ApiError 401 (key) or 403 (host, origin).
  void check(const HttpRequest& request) const;
  /// Access-Control headers for the request's origin; none where it has none or may not.
  HttpHeaders cors_headers(const HttpRequest& request) const;

 private:
  bool allows_origin(std::string_view origin) const;
  bool allows_host(std::string_view host) const;

  AccessOptions options_;
  std::vector<std::string> hashes_;  // SHA-256 of the keys
};

/// The keys of a file, one a line; empty lines and those that begin with # count as nothing. InvalidConfig
/// where it has none.
std::vector<std::string> read_key_file(const std::string& path);

/// Whether only this machine can reach an address.
bool is_loopback(std::string_view host);

}  // namespace ingot::serve

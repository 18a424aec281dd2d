#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ingot/hub/http.h"

namespace ingot {
class ConfigReader;
}

namespace ingot::hub {

/// Headers that a private mirror wants with each request, by server. Their values are secrets: no message
/// shows them.
class HostHeaders {
 public:
  HostHeaders() = default;
  /// A mapping of servers to headers, as YAML (`file` stands for it in messages):
  ///   mirror.example.com: {X-Api-Key: secret}
  /// A server is a host (over https), "host:port", or "http://host:port", which permits plain HTTP.
  static HostHeaders parse(std::string_view yaml, const std::string& file);
  /// From INGOT_HUB_HEADERS (the mapping itself), else `headers:` of INGOT_HUB_CONFIG, else of
  /// ingot/hub.yaml below XDG_CONFIG_HOME (~/.config).
  static HostHeaders from_environment();

  /// What goes to `url`, and to no other server.
  const HttpHeaders& of(const std::string& url) const;

 private:
  explicit HostHeaders(const ConfigReader& section);
  struct Server {
    std::string origin;  ///< "https://host"
    HttpHeaders headers;
  };
  std::vector<Server> servers_;
};

}  // namespace ingot::hub

#include "ingot/hub/host_headers.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

bool is_header_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

HttpHeaders read_headers(const ConfigReader& server) {
  HttpHeaders headers;
  for (const std::string& name : server.keys()) {
    if (!is_header_name(name)) server.fail(name, "is not the name of an HTTP header");
    std::string value = server.require<std::string>(name);
    // Said without the value, which the request's own error would name.
    if (value.find_first_of("\r\n") != std::string::npos)
      server.fail(name, "holds a line break, which no header may");
    headers.emplace_back(name, std::move(value));
  }
  return headers;
}

std::string config_file() {
  if (std::string path = first_variable({"INGOT_HUB_CONFIG"}); !path.empty()) return path;
  const std::string config = first_variable({"XDG_CONFIG_HOME"}), home = first_variable({"HOME"});
  if (config.empty() && home.empty()) return {};
  const std::string path = (config.empty() ? home + "/.config" : config) + "/ingot/hub.yaml";
  std::error_code missing;
  return std::filesystem::exists(path, missing) ? path : std::string();
}

}  // namespace

HostHeaders::HostHeaders(const ConfigReader& section) {
  for (const std::string& server : section.keys()) {
    const std::string origin = is_http_url(server) ? server : "https://" + server;
    if (parse_url(origin).path != "/") {
      section.fail(server, "names a path; write the server alone, as host or host:port");
    }
    servers_.push_back({origin, read_headers(section.section(server))});
  }
}

HostHeaders HostHeaders::parse(std::string_view yaml, const std::string& file) {
  return HostHeaders(Config::parse(yaml, file).root());
}

HostHeaders HostHeaders::from_environment() {
  // Environment: INGOT_HUB_HEADERS, INGOT_HUB_CONFIG | headers for private mirrors, or the file that has
  // them ([porting.md](porting.md))
  constexpr const char* kVariable = "INGOT_HUB_HEADERS";
  if (const std::string yaml = first_variable({kVariable}); !yaml.empty()) return parse(yaml, kVariable);
  const std::string path = config_file();
  if (path.empty()) return {};
  const Config config = Config::load(path);
  HostHeaders headers(config.root().section("headers"));
  config.finish();
  return headers;
}

const HttpHeaders& HostHeaders::of(const std::string& url) const {
  static const HttpHeaders kNone;
  const auto found =
      std::ranges::find_if(servers_, [&](const Server& server) { return same_origin(server.origin, url); });
  return found == servers_.end() ? kNone : found->headers;
}

}  // namespace ingot::hub

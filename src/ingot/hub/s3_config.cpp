#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/hub/s3.h"

namespace ingot::hub {
namespace {

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

struct Profile {
  S3Credentials credentials;
  std::string region, endpoint;

  void read(const std::string& path, const std::string& name) {
    if (!std::filesystem::exists(path)) return;
    for (const auto& [key, value] : parse_aws_profile(read_file(path), name)) {
      if (key == "aws_access_key_id") credentials.access_key = value;
      if (key == "aws_secret_access_key") credentials.secret_key = value;
      if (key == "aws_session_token") credentials.session_token = value;
      if (key == "region") region = value;
      if (key == "endpoint_url") endpoint = value;
    }
  }
};

}  // namespace

std::vector<std::pair<std::string, std::string>> parse_aws_profile(std::string_view text,
                                                                   std::string_view profile) {
  std::vector<std::pair<std::string, std::string>> settings;
  bool ours = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view raw = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      std::string_view name = trim(line.substr(1, line.find(']') - 1));
      if (name.starts_with("profile ")) name = trim(name.substr(8));
      ours = name == profile;
      continue;
    }
    // Indented lines belong to a nested section ("s3 ="), whose names mean something else.
    if (!ours || raw.front() == ' ' || raw.front() == '\t') continue;
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    settings.emplace_back(trim(line.substr(0, equals)), trim(line.substr(equals + 1)));
  }
  return settings;
}

S3Config S3Config::from_environment() {
  // Environment: AWS_PROFILE, AWS_DEFAULT_PROFILE, AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE | the
  // profile, and the files that have it
  std::string profile = first_variable({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  const bool asked = !profile.empty();
  if (!asked) profile = "default";
  const std::string home = first_variable({"HOME"});
  Profile stored;
  std::string config_file = first_variable({"AWS_CONFIG_FILE"});
  std::string credentials_file = first_variable({"AWS_SHARED_CREDENTIALS_FILE"});
  if (config_file.empty()) config_file = home + "/.aws/config";
  if (credentials_file.empty()) credentials_file = home + "/.aws/credentials";
  stored.read(config_file, profile);
  stored.read(credentials_file, profile);

  S3Config config;
  // Environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN | the account of `s3://`
  // addresses
  S3Credentials given{first_variable({"AWS_ACCESS_KEY_ID"}), first_variable({"AWS_SECRET_ACCESS_KEY"}),
                      first_variable({"AWS_SESSION_TOKEN"})};
  const S3Credentials& chosen = given.access_key.empty() ? stored.credentials : given;
  INGOT_CHECK(!asked || !chosen.access_key.empty(),
              InvalidConfig("AWS_PROFILE", fmt::format("'{}' holds no aws_access_key_id in {} or {}", profile,
                                                       credentials_file, config_file)));
  INGOT_CHECK(chosen.access_key.empty() == chosen.secret_key.empty(),
              InvalidConfig("AWS_SECRET_ACCESS_KEY", "one of access key and secret key is missing"));
  if (!chosen.access_key.empty()) config.credentials = chosen;
  // Environment: AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 | the region, and a
  // server that is not Amazon's
  const std::string region = first_variable({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (!region.empty() || !stored.region.empty()) config.region = region.empty() ? stored.region : region;
  config.endpoint = first_variable({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (config.endpoint.empty()) config.endpoint = stored.endpoint;
  while (config.endpoint.ends_with('/')) config.endpoint.pop_back();
  return config;
}

}  // namespace ingot::hub

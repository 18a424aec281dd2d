#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/hub/download.h"
#include "ingot/hub/http.h"
#include "ingot/hub/hub_cache.h"

namespace ingot::hub {

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token;
  std::string cache_directory;
  bool offline = false;
  HttpOptions http;

  /// By the variables of huggingface_hub: HF_ENDPOINT; HF_TOKEN, or the file HF_TOKEN_PATH ($HF_HOME/token),
  /// unless HF_HUB_DISABLE_IMPLICIT_TOKEN; HF_HUB_CACHE, or $HF_HOME/hub; HF_HUB_OFFLINE or
  /// TRANSFORMERS_OFFLINE; HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT in seconds.
  static HubOptions from_environment();
};

/// A file of a repository.
struct HubFile {
  std::string path;
  std::optional<std::uint64_t> size;
  std::string etag;    ///< the blob's name in the cache
  std::string sha256;  ///< of files in large file storage
  std::string git_sha1;
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

/// Reads the answer of /api/models/{repo}/revision/{revision}?blobs=true. FormatError where it is none, or
/// names paths or hashes that no honest server sends.
HubListing parse_hub_listing(std::string_view json, const std::string& address);

class HubClient {
 public:
  explicit HubClient(HubOptions options);

  const HubOptions& options() const { return options_; }
  HttpClient& http() { return *http_; }
  std::shared_ptr<HttpClient> shared_http() { return http_; }

  /// What a revision holds. HttpError that says what a person can do: a repository that is private, gated, or
  /// not there.
  HubListing list(const HubRepo& repo);
  /// Asks for size and tag of a file whose listing lacks them.
  void complete(const HubRepo& repo, const std::string& commit, HubFile& file);
  HttpRequest file_request(const HubRepo& repo, const std::string& commit, const std::string& path) const;

 private:
  HttpRequest request(std::string url, const HubRepo& repo) const;
  HubOptions options_;
  std::shared_ptr<HttpClient> http_;
};

}  // namespace ingot::hub

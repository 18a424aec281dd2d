#include "ingot/hub/hub_client.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

using Json = nlohmann::json;

bool flag(const char* name) {
  const std::string value = first_variable({name});
  return !value.empty() && parse_bool(value).value_or(false);
}

std::string stripped(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

void read_seconds(const char* variable, double& seconds) {
  const std::string text = first_variable({variable});
  if (text.empty()) return;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  INGOT_CHECK(error == std::errc() && end == text.data() + text.size() && seconds > 0,
              InvalidConfig(variable, fmt::format("is '{}'; expected seconds above 0", text)));
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// What the Hub's refusals mean (X-Error-Code) and what to do.
std::string explain_refusal(const HttpResponse& response, const HubRepo& repo, bool has_token) {
  const std::string code = response.header("x-error-code"), message = response.header("x-error-message");
  const std::string_view token_advice =
      has_token ? "; the token that was sent does not allow it" : "; set HF_TOKEN if it is private";
  if (code == "GatedRepo") {
    return fmt::format("'{}' is gated: ask for access on its page{}", repo.id,
                       has_token ? ", with the account of your token" : ", then set HF_TOKEN");
  }
  if (code == "RevisionNotFound") return fmt::format("'{}' has no revision '{}'", repo.id, repo.revision);
  if (code == "EntryNotFound") return fmt::format("'{}' has no such file at '{}'", repo.id, repo.revision);
  if (code == "RepoNotFound" || response.status == 401 || response.status == 404) {
    return fmt::format("there is no repository '{}' that you may see{}", repo.id, token_advice);
  }
  return fmt::format("the Hub answers {}{}{}", response.status, message.empty() ? "" : ": ", message);
}

/// A JSON member as text or number, or nothing; other types are an error that names the field.
std::string text_of(const Json& object, const char* key, const std::string& address) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  INGOT_CHECK(found->is_string(), FormatError(address, -1, key, "is not a string"));
  return found->get<std::string>();
}

HubFile parse_file(const Json& entry, const std::string& address) {
  INGOT_CHECK(entry.is_object(), FormatError(address, -1, "siblings", "holds something else than files"));
  HubFile file;
  file.path = text_of(entry, "rfilename", address);
  INGOT_CHECK(is_safe_relative_path(file.path),
              FormatError(address, -1, "rfilename",
                          fmt::format("'{}' is not a path below a directory", printable(file.path))));
  if (const auto size = entry.find("size"); size != entry.end() && size->is_number_unsigned()) {
    file.size = size->get<std::uint64_t>();
  }
  file.git_sha1 = text_of(entry, "blobId", address);
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = text_of(*lfs, "sha256", address);
    if (file.sha256.empty()) file.sha256 = text_of(*lfs, "oid", address);
    if (const auto size = lfs->find("size"); size != lfs->end() && size->is_number_unsigned()) {
      file.size = size->get<std::uint64_t>();
    }
    file.git_sha1.clear();  // that of the pointer file, not of the content
  }
  INGOT_CHECK(file.sha256.empty() || is_hex(file.sha256, 64),
              FormatError(address, -1, "lfs", fmt::format("of '{}' is not a SHA-256", file.path)));
  INGOT_CHECK(file.git_sha1.empty() || is_hex(file.git_sha1, 40),
              FormatError(address, -1, "blobId", fmt::format("of '{}' is not a SHA-1", file.path)));
  file.etag = file.sha256.empty() ? file.git_sha1 : file.sha256;
  return file;
}

}  // namespace

HubOptions HubOptions::from_environment() {
  HubOptions options;
  // Environment: HF_HOME, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE | the Hub's cache, shared with Hugging Face's
  // tools (`~/.cache/huggingface`)
  std::string home = first_variable({"HF_HOME"});
  if (home.empty()) {
    const std::string cache = first_variable({"XDG_CACHE_HOME"});
    home = (cache.empty() ? first_variable({"HOME"}) + "/.cache" : cache) + "/huggingface";
  }
  options.cache_directory = first_variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  if (options.cache_directory.empty()) options.cache_directory = home + "/hub";
  // Environment: HF_ENDPOINT | a mirror of the Hub
  if (const std::string endpoint = first_variable({"HF_ENDPOINT"}); !endpoint.empty())
    options.endpoint = endpoint;
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  // Environment: HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH | the token, or the file that has it;
  // `HF_HUB_DISABLE_IMPLICIT_TOKEN=1`: send none that is not set here
  options.token = stripped(first_variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (options.token.empty() && !flag("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
    std::string path = first_variable({"HF_TOKEN_PATH"});
    if (path.empty()) path = home + "/token";
    if (std::filesystem::is_regular_file(path)) options.token = stripped(read_file(path));
  }
  // Environment: HF_HUB_OFFLINE=1, TRANSFORMERS_OFFLINE=1 | nothing is fetched; what the cache has is used
  options.offline = flag("HF_HUB_OFFLINE") || flag("TRANSFORMERS_OFFLINE");
  // Environment: HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT | seconds to wait for a connection, and for a
  // download that stands still
  read_seconds("HF_HUB_ETAG_TIMEOUT", options.http.connect_seconds);
  read_seconds("HF_HUB_DOWNLOAD_TIMEOUT", options.http.stall_seconds);
  return options;
}

HubListing parse_hub_listing(std::string_view json, const std::string& address) {
  const Json root = parse_json_or_discard<Json>(json);
  INGOT_CHECK(root.is_object(), FormatError(address, 0, "answer", "is not a JSON object; is this the Hub?"));
  HubListing listing;
  listing.commit = text_of(root, "sha", address);
  INGOT_CHECK(is_commit(listing.commit),
              FormatError(address, -1, "sha", "is not a commit (40 hexadecimal digits)"));
  const auto files = root.find("siblings");
  INGOT_CHECK(files != root.end() && files->is_array(),
              FormatError(address, -1, "siblings", "is not a list of files"));
  for (const Json& entry : *files) listing.files.push_back(parse_file(entry, address));
  return listing;
}

HubClient::HubClient(HubOptions options)
    : options_(std::move(options)), http_(std::make_shared<HttpClient>(options_.http)) {
  parse_url(options_.endpoint);
}

HttpRequest HubClient::request(std::string url, const HubRepo& repo) const {
  INGOT_CHECK(!options_.offline,
              IoError(repo.id,
                      "is asked for from the Hub, but HF_HUB_OFFLINE is set; unset it, or use what is in "
                      "the cache"));
  HttpRequest request{.url = std::move(url), .bearer = options_.token};
  request.explain = [repo, has_token = !options_.token.empty()](const HttpResponse& response) {
    return explain_refusal(response, repo, has_token);
  };
  return request;
}

HubListing HubClient::list(const HubRepo& repo) {
  const HttpRequest query = request(
      fmt::format("{}/api/{}/{}/revision/{}?blobs=true", options_.endpoint,
                  repo.dataset ? "datasets" : "models", repo.id, percent_encode(repo.revision, false)),
      repo);
  const HttpResponse response = http_->request(query);
  if (response.status != 200) throw_refusal(query, response);
  return parse_hub_listing(response.body, printable_url(query.url));
}

HttpRequest HubClient::file_request(const HubRepo& repo, const std::string& commit,
                                    const std::string& path) const {
  return request(fmt::format("{}/{}{}/resolve/{}/{}", options_.endpoint, repo.dataset ? "datasets/" : "",
                             repo.id, commit, percent_encode(path, true)),
                 repo);
}

void HubClient::complete(const HubRepo& repo, const std::string& commit, HubFile& file) {
  HttpRequest query = file_request(repo, commit, file.path);
  query.method = "HEAD";
  query.stay_at_origin = true;  // the storage behind it knows neither tag nor commit
  query.headers.emplace_back("Accept-Encoding", "identity");
  HttpResponse response = http_->request(query);
  if (response.status >= 400) throw_refusal(query, response);
  if (const std::string linked = response.header("x-linked-etag"); !linked.empty())
    response.headers["etag"] = linked;
  if (const std::string size = response.header("x-linked-size"); !size.empty()) {
    response.headers["content-length"] = size;
  }
  file.etag = response.etag();
  file.size = response.content_length();
  INGOT_CHECK(is_safe_relative_path(file.etag) && file.etag.find('/') == std::string::npos,
              HttpError(query.url, fmt::format("its tag '{}' cannot name a file", file.etag)));
  if (is_hex(file.etag, 64)) file.sha256 = file.etag;
  if (is_hex(file.etag, 40)) file.git_sha1 = file.etag;
}

}  // namespace ingot::hub

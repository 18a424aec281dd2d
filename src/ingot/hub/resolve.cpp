#include "ingot/hub/resolve.h"

#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/log.h"
#include "ingot/base/percent.h"
#include "ingot/hub/byte_source.h"
#include "ingot/hub/pull.h"
#include "ingot/hub/s3.h"
#include "ingot/hub/select_files.h"
#include "ingot/hub/url.h"
#include "ingot/hub/url_cache.h"
#include "ingot/weights/open.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;

// What the cache has of a repository, if it has all of it. `why`: nothing can be fetched now.
std::optional<std::string> find_whole(const HubCache& cache, const HubRepo& repo, std::string_view why) {
  auto found = cache.find(repo);
  if (!found) return found;
  const auto missing = cache.missing(repo);
  if (!missing.has_value()) return found;
  const std::string command =
      fmt::format("ingot pull {}{}", repo.id, repo.revision == "main" ? "" : "@" + repo.revision);
  throw IoError(*found, fmt::format("{} is missing: the download of {} was interrupted, and {}; fetch the "
                                    "rest with: {}, or that file alone with: {} --include '{}'",
                                    *missing, repo.id, why, command, command, *missing));
}

std::string from_hub(const HubRepo& repo) {
  HubClient client(HubOptions::from_environment());
  const HubCache cache(client.options().cache_directory);
  if (!client.options().offline) {
    try {
      const PullResult pulled = pull(client, repo);
      return repo.file.empty() ? pulled.path : pulled.path + "/" + repo.file;
    } catch (const HttpError& error) {
      // Without the network, what is there will do.
      const auto found =
          error.status == 0
              ? find_whole(cache, repo, fmt::format("the Hub does not answer ({})", error.what()))
              : std::nullopt;
      if (!found) throw;
      log(LogLevel::warn, "ingot::hub", fmt::format("{}; using what was pulled before", error.what()));
      return *found;
    }
  }
  const auto found = find_whole(cache, repo, "HF_HUB_OFFLINE forbids to go on");
  INGOT_CHECK(found,
              IoError(repo.id, fmt::format("is not in {} at revision '{}', and HF_HUB_OFFLINE forbids to "
                                           "fetch it",
                                           cache.directory(), repo.revision)));
  return *found;
}

std::string from_cache(const std::string& model) {
  const HubRepo repo = parse_hub_repo(model);
  const HubCache cache(HubOptions::from_environment().cache_directory);
  const auto found = find_whole(cache, repo, "only hf:// and --yes fetch");
  INGOT_CHECK(found,
              IoError(model, fmt::format("no such file or directory, and the Hub's cache ({}) does not hold "
                                         "it; to fetch it: ingot pull {}, or --yes where a command has it",
                                         cache.directory(), model)));
  return *found;
}

/// Below the cache, a directory for each address.
std::string place_of(const std::string& address) {
  return fmt::format("{}/urls/{}", cache_directory(), sha256_hex(address).substr(0, 16));
}

std::string file_name(const std::string& path) {
  const std::string name = percent_decode(path.substr(path.rfind('/') + 1));
  return is_safe_relative_path(name) && name.find('/') == std::string::npos ? name : "file";
}

/// "https://huggingface.co/org/name[/tree/revision]" as a repository; other pages of it are plain files.
std::optional<HubRepo> repo_of_page(const std::string& address) {
  const std::string endpoint = HubOptions::from_environment().endpoint + "/";
  if (!address.starts_with(endpoint)) return std::nullopt;
  std::string id = address.substr(endpoint.size());
  std::string revision = "main";
  if (const std::size_t tree = id.find("/tree/"); tree != id.npos) {
    revision = percent_decode(id.substr(tree + 6));
    id.resize(tree);
  }
  const bool other = id.starts_with("datasets/") || id.starts_with("spaces/") || id.starts_with("api/");
  if (other || !looks_like_hub_repo(id) || !is_safe_relative_path(revision)) return std::nullopt;
  return HubRepo{.id = id, .revision = revision, .file = {}};
}

std::string from_url(const std::string& address) {
  if (const auto repo = repo_of_page(address)) return from_hub(*repo);
  HttpClient client;
  return fetch_cached(client, {.url = address}, place_of(address), file_name(parse_url(address).path));
}

std::string from_s3(const std::string& address) {
  const S3Location location = parse_s3_url(address);
  const S3Config config = S3Config::from_environment();
  HttpClient client;
  if (!location.is_prefix()) {
    return fetch_cached(client, s3_object(config, location), place_of(address), file_name(location.key));
  }
  const std::string directory = place_of(address), complete = directory + "/.complete";
  std::vector<S3Object> objects;
  try {
    objects = list_s3(client, config, location);
  } catch (const HttpError& error) {
    if (error.status != 0 || !fs::exists(complete)) throw;
    log(LogLevel::warn, "ingot::hub", fmt::format("{}; using what was fetched before", error.what()));
    return directory;
  }
  std::vector<HubFile> files;
  for (const S3Object& object : objects) {
    std::string path = object.key.substr(std::min(location.key.size(), object.key.size()));
    if (is_safe_relative_path(path)) files.push_back({.path = std::move(path), .size = object.size});
  }
  INGOT_CHECK(!files.empty(), IoError(address, "holds no objects"));
  for (const HubFile& file : select_files(files, {}, {})) {
    fetch_cached(client, s3_object(config, {location.bucket, location.key + file.path}), directory,
                 file.path);
  }
  if (!fs::exists(complete)) write_file_atomically(complete, address);
  return directory;
}

}  // namespace

std::string resolve_model(const std::string& model) {
  std::error_code missing;
  if (fs::exists(model, missing)) return model;
  if (model.starts_with("hf://")) return from_hub(parse_hub_repo(model));
  if (is_http_url(model)) return from_url(model);
  if (model.starts_with("s3://")) return from_s3(model);
  if (looks_like_hub_repo(model)) return from_cache(model);
  return model;
}

bool is_not_fetched(const std::string& model) {
  std::error_code missing;
  if (fs::exists(model, missing) || !looks_like_hub_repo(model)) return false;
  const HubRepo repo = parse_hub_repo(model);
  const HubCache cache(HubOptions::from_environment().cache_directory);
  return !cache.find(repo).has_value() || cache.missing(repo).has_value();
}

bool is_remote_safetensors(const std::string& model) {
  std::error_code missing;
  if (fs::exists(model, missing)) return false;
  if (model.starts_with("s3://")) return model.ends_with(".safetensors");
  return is_http_url(model) && parse_url(model).path.ends_with(".safetensors");
}

std::unique_ptr<WeightSource> open_weights(const std::string& model) {
  if (!is_remote_safetensors(model)) return ingot::open_weights(resolve_model(model));
  const HttpRequest request = model.starts_with("s3://")
                                  ? s3_object(S3Config::from_environment(), parse_s3_url(model))
                                  : HttpRequest{.url = model};
  return open_remote_safetensors(open_remote(std::make_shared<HttpClient>(), request));
}

}  // namespace ingot::hub

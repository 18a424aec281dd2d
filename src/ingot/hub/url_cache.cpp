#include "ingot/hub/url_cache.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/progress.h"
#include "ingot/hub/byte_source.h"
#include "ingot/hub/download.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool is_noted(const std::string& note, const RemoteFile& remote, const std::string& path) {
  std::error_code missing;
  if (!fs::exists(note, missing) || !fs::exists(path, missing) || remote.etag.empty()) return false;
  const Json json = parse_json_or_discard<Json>(read_file(note));
  return json.is_object() && json.value("etag", "") == remote.etag && remote.has_size &&
         fs::file_size(path) == remote.size;
}

}  // namespace

std::string fetch_cached(HttpClient& client, const HttpRequest& request, const std::string& directory,
                         const std::string& file) {
  std::string path = directory + "/" + file;
  const std::string note = path + ".source.json";
  RemoteFile remote;
  try {
    remote = look_at(client, request);
  } catch (const HttpError& error) {
    if (error.status != 0 || !fs::exists(note) || !fs::exists(path)) throw;
    log(LogLevel::warn, "ingot::hub", fmt::format("{}; using what was fetched before", error.what()));
    return path;
  }
  if (is_noted(note, remote, path)) return path;  // before the lock: the cache may be read-only
  const FileLock lock(path + ".lock");
  if (is_noted(note, remote, path)) return path;  // another process fetched it meanwhile
  // A part of another version must not be continued.
  if (!remote.has_ranges || remote.etag.empty()) fs::remove(path + ".incomplete");
  Download wanted{.request = request, .target = path, .etag = remote.etag};
  if (remote.has_size) wanted.size = remote.size;
  std::int64_t done = 0;
  ProgressBar bar(
      {.label = "fetching " + file, .total = static_cast<std::int64_t>(remote.size), .bytes = true});
  wanted.on_bytes = [&](std::int64_t bytes) { bar.update(done += bytes); };
  download(client, wanted);
  write_file_atomically(note, dump_json(nlohmann::ordered_json{{"url", printable_url(request.url)},
                                                               {"etag", remote.etag},
                                                               {"size", remote.size}},
                                        2));
  return path;
}

}  // namespace ingot::hub

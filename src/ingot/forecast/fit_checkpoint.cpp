#include "ingot/forecast/fit_checkpoint.h"

#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/hash.h"
#include "ingot/base/json.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/forecaster.h"

namespace ingot::forecast {
namespace {

using Json = nlohmann::ordered_json;

void feed(Sha256& sha, const std::string& text) {
  sha.update(text);
  sha.update(std::string_view("\0", 1));  // so that no two lists of texts run into the same bytes
}

}  // namespace

std::string table_digest(const SeriesTable& t) {
  Sha256 sha;
  feed(sha, fmt::format("{} {}", t.targets, t.frequency.name()));
  for (const std::string& name : t.column_names) feed(sha, name);
  for (const Series& series : t.series) {
    feed(sha, fmt::format("{} {}", series.length(), series.id));
    sha.update(std::as_bytes(std::span(series.times)));
    for (const std::vector<double>& column : series.columns) sha.update(std::as_bytes(std::span(column)));
    for (const std::vector<double>& column : series.future) sha.update(std::as_bytes(std::span(column)));
    for (std::size_t c = 0; c < series.made_up.size(); ++c) {
      for (std::size_t row = 0; row < series.made_up[c].size(); ++row) {
        if (!series.measured(c, row)) feed(sha, fmt::format("{} {}", c, row));
      }
    }
  }
  return sha.finish_hex();
}

FitIdentity::FitIdentity(const FitConfig& c, const SeriesTable& t) : table(table_digest(t)) {
  Json json = to_json(c);
  json.erase("data");
  if (!c.from.empty()) json["from"] = "weights of SHA-256 " + sha256_file(weights_path(c.from));
  config = dump_json(json);
}

std::string fit_digest(const FitConfig& config, const SeriesTable& table) {
  const FitIdentity identity(completed(config, table), table);
  Sha256 sha;
  feed(sha, identity.config);
  feed(sha, identity.table);
  return sha.finish_hex();
}

CheckpointDirectory fit_checkpoints(const std::string& directory, dist::Communicator* ranks) {
  return CheckpointDirectory(directory, {.state_file = "fit_state.json", .numbered = false}, ranks);
}

bool has_fit_checkpoint(const std::string& directory) {
  return !directory.empty() && !fit_checkpoints(directory).list().empty();
}

void remove_fit_checkpoint(const std::string& directory) {
  if (!directory.empty()) fit_checkpoints(directory).remove();
}

}  // namespace ingot::forecast

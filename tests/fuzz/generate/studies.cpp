// Studies of ingot tune: real ones whose rows were changed behind its back, and configurations of studies.
#include <filesystem>

#include "tests/fuzz/generate/source.h"
#include "tests/fuzz/study_space.h"
#include "tests/fuzz/temporary_files.h"
#include <fmt/format.h>
#include <sqlite3.h>

#include "ingot/base/files.h"

namespace ingot::test {
namespace {

/// Three finished trials, one that failed and one that runs.
std::string good_study() {
  const FuzzDirectory directory;
  const std::string path = directory.path() + "/study.db";
  {
    tune::Tuner tuner(study_options(path));
    for (int i = 0; i < 3; ++i) {
      auto trial = tuner.suggest();
      tuner.report(*trial, 1, 1.0 / (i + 1));
      tuner.complete(*trial, 0.5 / (i + 1));
    }
    auto failed = tuner.suggest();
    tuner.fail(*failed, "no memory");
    tuner.suggest();
  }
  return read_file(path);
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\0') continue;  // would end the statement
    result += c;
    if (c == '\'') result += c;
  }
  return result + "'";
}

std::string value(Source& source) {
  switch (source.below(6)) {
    case 0:
      return std::to_string(source.integer());
    case 1:
      return std::string(source.one_of({"NULL", "9e999", "-9e999", "0.1", "x'00ff'", "-1", "1e308"}));
    case 2:
      return quoted(source.text());
    case 3:
      return quoted(hostile_json(source, {"rate", "layers", "kind"}));
    case 4:
      return fmt::format("zeroblob({})", source.below(100'000));
    default:
      return quoted(
          fmt::format(R"({{"rate": {}, "layers": {}, "kind": "a"}})", source.number(), source.number()));
  }
}

std::string statement(Source& source) {
  const auto column =
      source.one_of({"number", "state", "params", "value", "started", "ended", "attempts", "lease",
                     "heartbeat", "worker", "machine", "pid", "process_started", "note", "revision"});
  switch (source.below(8)) {
    case 0:
      return fmt::format("UPDATE study SET {} = {};",
                         source.one_of({"space", "direction", "objective", "created", "revision"}),
                         value(source));
    case 1:
      return fmt::format("INSERT INTO reports VALUES ({}, {}, {});", value(source), value(source),
                         value(source));
    case 2:
      return fmt::format("{} {};", source.one_of({"DROP TABLE", "DELETE FROM"}),
                         source.one_of({"study", "trials", "reports"}));
    case 3:
      return fmt::format(
          "INSERT INTO trials SELECT number + {}, state, params, {}, started, ended, attempts, lease, "
          "heartbeat, worker, machine, pid, process_started, note, revision FROM trials;",
          source.integer(), value(source));
    default:
      return fmt::format("UPDATE trials SET {} = {} WHERE number = {};", column, value(source),
                         source.below(5));
  }
}

std::string configuration(Source& source) {
  std::string yaml = "command: ./try {p0}\ntrials: " + source.number() + "\nspace:\n";
  for (std::size_t n = source.below(5); n > 0; --n) {
    yaml += fmt::format("  p{}: {{low: {}, high: {}", n, source.number(), source.number());
    if (source.one_in(2)) yaml += fmt::format(", type: {}", source.one_of({"int", "float", "choice", "~"}));
    if (source.one_in(3)) yaml += fmt::format(", step: {}", source.number());
    if (source.one_in(3)) yaml += fmt::format(", log: {}", source.one_of({"true", "false", "1", "[]"}));
    if (source.one_in(4)) yaml += fmt::format(", choices: [{}, {}]", source.number(), source.number());
    if (source.one_in(4)) yaml += fmt::format(", when: {{p{}: {}}}", source.below(5), source.number());
    yaml += "}\n";
  }
  return yaml + fmt::format("{}: {}\n",
                            source.one_of({"workers", "sampler", "pruner", "directions", "seed", "timeout"}),
                            source.one_of({"true", "-1", "{type: grid}", "{type: asha, min_steps: 0}",
                                           "[minimize, maximize]", "1e999", "~"}));
}

}  // namespace

std::string hostile_study(Source& source) {
  if (source.one_in(4)) return configuration(source);
  static const std::string kGood = good_study();
  if (source.one_in(3)) return mutated_bytes(source, {kGood});
  const FuzzDirectory directory;
  const std::string path = directory.path() + "/study.db";
  directory.write("study.db", kGood);
  sqlite3* db = nullptr;
  sqlite3_open(path.c_str(), &db);
  for (std::size_t n = 1 + source.below(3); n > 0; --n)  // some are refused: the others count
    sqlite3_exec(db, statement(source).c_str(), nullptr, nullptr, nullptr);
  sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;", nullptr, nullptr,
               nullptr);
  sqlite3_close(db);
  return read_file(path);
}

}  // namespace ingot::test

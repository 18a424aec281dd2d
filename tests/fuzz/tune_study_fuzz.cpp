// A study from a stranger: its SQLite file, opened, asked for a trial and told as a report; or else its YAML
// file.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/fuzz/study_space.h"
#include "tests/fuzz/temporary_files.h"

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/tune/study_config.h"
#include "ingot/tune/study_report.h"
#include "ingot/tune/tuner.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ingot::test::FuzzDirectory kDirectory;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (!bytes.starts_with("SQLite")) {
      ingot::Config config = ingot::Config::parse(bytes);
      [[maybe_unused]] const auto study =
          ingot::tune::read_study_config(config, kDirectory.path() + "/study.yaml");
      return 0;
    }
    const std::string path = kDirectory.path() + "/study.db";
    for (const char* beside : {"-wal", "-shm", "-journal"}) std::filesystem::remove(path + beside);
    kDirectory.write("study.db", bytes);
    ingot::tune::Tuner tuner(ingot::test::study_options(path));
    if (auto trial = tuner.suggest()) tuner.report(*trial, 1, 0.5);
    [[maybe_unused]] const auto best = tuner.best_trials();
    ingot::tune::StudyConfig config;
    config.name = "study";
    ingot::tune::write_study_report(kDirectory.path() + "/report.html", config, tuner);
  } catch (const ingot::Error&) {
  }
  return 0;
}

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/protobuf_writer.h"
#include "ingot/base/random_seed.h"
#include "ingot/train/reporter.h"
#include "ingot/train/reporters/metric_names.h"
#include "ingot/train/reporters/tracking_json.h"

// wandb/offline-run-.../run-ID.wandb: what the wandb package writes with mode="offline", for `wandb sync`.
// The file is LevelDB's log of records (wandb/proto/wandb_internal.proto), with CRC-32 instead of CRC-32C.
namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

class RecordLog {
 public:
  explicit RecordLog(const std::string& path) : file_(path) {
    constexpr std::uint16_t kMagic = 0xBEE1;
    file_.write(":W&B" + little_endian(kMagic) + '\0');
  }

  void write(std::string_view record) {
    bool first = true;
    do {
      const std::size_t left = kBlock - file_.size() % kBlock;
      if (left < kHeader) {
        file_.write(std::string(left, '\0'));
        continue;
      }
      const std::string_view part = record.substr(0, left - kHeader);
      record.remove_prefix(part.size());
      write_part(first ? (record.empty() ? 1 : 2) : (record.empty() ? 4 : 3), part);
      first = false;
    } while (first || !record.empty());
  }
  void flush() { file_.flush(); }

 private:
  static constexpr std::size_t kBlock = 32768, kHeader = 7;

  // Types: 1 a whole record, 2 to 4 its first, middle and last part.
  void write_part(std::uint8_t type, std::string_view part) {
    const std::string typed = static_cast<char>(type) + std::string(part);
    const auto crc = static_cast<std::uint32_t>(
        ::crc32(0, reinterpret_cast<const Bytef*>(typed.data()), static_cast<uInt>(typed.size())));
    file_.write(little_endian(crc) + little_endian(static_cast<std::uint16_t>(part.size())) + typed);
  }
  FileWriter file_;
};

// Fields of wandb_internal.proto.
namespace record {
constexpr int kNumber = 1, kHistory = 2, kSummary = 3, kRun = 17, kExit = 18, kHeader = 21;
constexpr int kUpdate = 1, kKey = 1, kNestedKey = 2, kValueJson = 16;  // of summary, config and history
constexpr int kStep = 2, kStepNumber = 1;                              // of history
constexpr int kRunId = 1, kEntity = 2, kProject = 3, kConfig = 4, kDisplayName = 8, kHost = 13,
              kStartingStep = 14, kStartTime = 17, kResumed = 18;
constexpr int kVersionInfo = 1, kProducer = 1, kMinConsumer = 2;
}  // namespace record

ProtobufMessage item(int key_field, std::string_view key, std::string_view json) {
  ProtobufMessage message;
  message.bytes(key_field, key).bytes(record::kValueJson, json);
  return message;
}

std::string new_run_id() {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string id;
  for (int i = 0; i < 8; ++i) id += kLetters[random_seed() % kLetters.size()];
  return id;
}

// Of the run that an earlier start wrote to this directory; empty where there is none.
std::string last_run_id(const std::string& directory) {
  std::string newest;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("offline-run-")) newest = std::max(newest, name);
  }
  return newest.empty() ? "" : newest.substr(newest.rfind('-') + 1);
}

class WandbReporter : public Reporter {
 public:
  void begin(const RunInfo& info) override {
    const Tracking& tracking = info.tracking;
    const std::string base = info.output_dir + "/wandb";
    std::string id = set_or_variable(tracking.wandb_run_id, {"WANDB_RUN_ID"});
    if (id.empty() && info.first_step > 0) id = last_run_id(base);
    if (id.empty()) id = new_run_id();
    began_ = std::chrono::system_clock::now();
    const std::time_t time = std::chrono::system_clock::to_time_t(began_);
    directory_ = fmt::format("{}/offline-run-{:%Y%m%d_%H%M%S}-{}", base, fmt::gmtime(time), id);
    make_directories(directory_ + "/files");
    log_.emplace(fmt::format("{}/run-{}.wandb", directory_, id));
    write(record::kHeader,
          ProtobufMessage().message(record::kVersionInfo,
                                    ProtobufMessage()
                                        .bytes(record::kProducer, "ingot " + info.metadata.version)
                                        .bytes(record::kMinConsumer, "0.12.0")));
    write(record::kRun, run_of(info, id));
    flush();
  }

  void step(const StepRecord& r) override {
    NamedValues values = tracked_values(r);
    values.emplace_back("train/epoch", r.epoch);
    history(values, r.step);
  }
  void evaluation(const EvalRecord& r) override { history(tracked_values(r), r.step); }
  void flush() override {
    if (log_) log_->flush();
  }
  void finish(const RunHistory&) override {
    if (!log_) return;
    write(record::kExit, ProtobufMessage());
    flush();
    log(LogLevel::info, "ingot::wandb",
        fmt::format("{}: upload it by wandb sync {}", directory_, directory_));
  }

 private:
  ProtobufMessage run_of(const RunInfo& info, const std::string& id) const {
    const Tracking& tracking = info.tracking;
    ProtobufMessage config;
    const auto add = [&](std::string_view key, const Json& value) {
      config.message(record::kUpdate, item(record::kKey, key, dump_json(value)));
    };
    for (const Setting& setting : info.config) add(setting.name, setting_json(setting.value));
    for (const auto& [name, value] : info.metadata.rows()) add("run/" + name, value);
    // Environment: WANDB_PROJECT, WANDB_NAME, WANDB_ENTITY, WANDB_RUN_ID |
    // the same of Weights & Biases
    const std::string project = set_or_variable(tracking.wandb_project, {"WANDB_PROJECT"});
    const std::string name = set_or_variable(tracking.wandb_name, {"WANDB_NAME"});
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(began_.time_since_epoch()).count();
    ProtobufMessage run;
    run.bytes(record::kRunId, id)
        .bytes(record::kEntity, set_or_variable(tracking.wandb_entity, {"WANDB_ENTITY"}))
        .bytes(record::kProject, project.empty() ? "ingot" : project)
        .message(record::kConfig, config)
        .bytes(record::kDisplayName, name.empty() ? info.name : name)
        .bytes(record::kHost, info.metadata.host)
        .varint(record::kStartingStep, static_cast<std::uint64_t>(info.first_step))
        .message(record::kStartTime, ProtobufMessage().varint(1, static_cast<std::uint64_t>(seconds)))
        .varint(record::kResumed, info.first_step > 0 ? 1 : 0);
    return run;
  }

  // Values of one step, which W&B wants together and in order of the steps.
  void history(const NamedValues& values, std::int64_t step) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    NamedValues all = values;
    all.emplace_back("_timestamp", now.count());
    all.emplace_back("_runtime",
                     now.count() - std::chrono::duration<double>(began_.time_since_epoch()).count());
    ProtobufMessage history, summary;
    const auto add = [&](std::string_view name, const Json& value) {
      const ProtobufMessage each = item(record::kNestedKey, name, dump_json(value));
      history.message(record::kUpdate, each);
      summary.message(record::kUpdate, each);
    };
    for (const auto& [name, value] : all) add(name, number_json(value));
    add("_step", step);
    history.message(record::kStep,
                    ProtobufMessage().varint(record::kStepNumber, static_cast<std::uint64_t>(step)));
    write(record::kHistory, history);
    write(record::kSummary, summary);
  }

  void write(int field, const ProtobufMessage& content) {
    ProtobufMessage record;
    record.varint(record::kNumber, ++records_).message(field, content);
    log_->write(record.encoded());
  }

  std::chrono::system_clock::time_point began_;
  std::string directory_;
  std::optional<RecordLog> log_;
  std::uint64_t records_ = 0;
};

}  // namespace

std::shared_ptr<Reporter> make_wandb_reporter() { return std::make_shared<WandbReporter>(); }

}  // namespace ingot

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ingot/base/setting.h"
#include "ingot/core/device.h"

namespace ingot {

/// What a run ran with and on. One record for every kind of training: it is run.json in the output directory
/// and in each checkpoint, the first line of metrics.jsonl, and a table of the report.
struct RunMetadata {
  std::string version, commit, compiler;    ///< of Ingot; commit: empty where it is not known
  std::string started;                      ///< "2026-11-27T12:00:00Z"
  std::vector<std::string> command;         ///< without secrets; empty from a library
  std::string host, system, processor;      ///< "box", "Linux 6.1.0 x86_64", "Intel(R) Xeon(R) ..."
  std::string device, device_name, driver;  ///< "cuda:0", "NVIDIA H100", "CUDA 13.0, driver 13.1"
  std::string instruction_set;              ///< the highest level that kernels use: "avx512_bf16"
  std::int64_t threads = 0, processes = 1;
  std::vector<std::pair<std::string, std::uint64_t>> seeds;  ///< by their keys
  std::vector<Setting> configuration;                        ///< without secrets
  std::string configuration_hash;                            ///< SHA-256 of names and values
  std::vector<std::pair<std::string, std::string>> data;     ///< what it trained on: a fingerprint each

  /// Fills in build, machine, command and time: all but what the run itself knows.
  void describe_process(Device on);
  /// Sets configuration and its hash, which tells nothing of where the run writes and whether it was resumed.
  void set_configuration(std::vector<Setting> settings);

  std::string to_json() const;
  /// FormatError, naming `source`, where the text is none of these records; keys that it lacks stay empty.
  static RunMetadata from_json(const std::string& text, const std::string& source);
  /// Names and values for people, without the configuration's settings and without what is empty.
  std::vector<std::pair<std::string, std::string>> rows() const;
};

/// "run.json".
inline constexpr const char* kRunMetadataFile = "run.json";

}  // namespace ingot

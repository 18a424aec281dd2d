#include "ingot/train/checkpoint_directory.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/checksums.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"
#include "ingot/base/printable.h"
#include "ingot/dist/communicator.h"
#include "ingot/train/run_metadata.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingle = "checkpoint";
constexpr std::string_view kNumbered = "checkpoint-";
constexpr std::string_view kSafetensors = ".safetensors";

// "checkpoint-000123" is of step 123.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kNumbered)) return std::nullopt;
  const char* end = name.data() + name.size();
  std::int64_t step = 0;
  const auto parsed = std::from_chars(name.data() + kNumbered.size(), end, step);
  return parsed.ec == std::errc{} && parsed.ptr == end ? std::optional(step) : std::nullopt;
}

}  // namespace

SavedCheckpoint::SavedCheckpoint(std::string path, std::string state_file)
    : path_(std::move(path)), state_file_(std::move(state_file)), state_(read_file(state_path())) {}

std::map<std::string, Tensor> SavedCheckpoint::tensors(std::string_view file) const {
  const std::string path = fmt::format("{}/{}.safetensors", path_, file);
  return fs::exists(path) ? read_safetensors(path) : std::map<std::string, Tensor>{};
}

// A rank's part has what the whole would be called, and its number.
std::map<std::string, Tensor> SavedCheckpoint::shards(std::string_view file) const {
  std::map<std::string, Tensor> all = tensors(file);
  const std::string begin = fmt::format("{}-", file);
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.find("-of-") != std::string::npos && name.ends_with(kSafetensors))
      all.merge(read_safetensors(entry.path().string()));
  }
  return all;
}

CheckpointDirectory::CheckpointDirectory(std::string root, CheckpointNames names, dist::Communicator* ranks)
    : root_(std::move(root)), names_(std::move(names)), ranks_(ranks) {}

bool CheckpointDirectory::is_first() const { return ranks_ == nullptr || ranks_->is_first(); }

std::string CheckpointDirectory::path(std::int64_t step) const {
  return names_.numbered ? fmt::format("{}/{}{:06}", root_, kNumbered, step)
                         : fmt::format("{}/{}", root_, kSingle);
}

std::vector<CheckpointEntry> CheckpointDirectory::list() const {
  std::vector<CheckpointEntry> entries;
  if (!fs::is_directory(root_)) return entries;
  for (const auto& entry : fs::directory_iterator(root_)) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    const std::optional<std::int64_t> step = step_of(name);
    if (names_.numbered ? step.has_value() : name == kSingle)
      entries.push_back({step.value_or(0), entry.path().string()});
  }
  std::ranges::sort(entries, {}, &CheckpointEntry::step);
  return entries;
}

// What went wrong on one rank is thrown on all, so that none waits for another that has given up.
void CheckpointDirectory::together(FunctionRef<void()> work) const {
  if (ranks_ == nullptr) return work();
  std::exception_ptr failure;
  std::string problem;
  try {
    work();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    problem = error.what();
  }
  const std::vector<std::string> problems = ranks_->all_gather(problem);
  if (failure != nullptr) std::rethrow_exception(failure);
  for (std::size_t rank = 0; rank < problems.size(); ++rank)
    INGOT_CHECK(problems[rank].empty(),
                IoError(root_, fmt::format("rank {} could not write its part: {}", rank, problems[rank])));
}

void CheckpointDirectory::write_own(const std::string& place, const Checkpoint& checkpoint) const {
  for (const auto& [file, tensors] : checkpoint.shards) {
    const std::string name =
        fmt::format("{}-{:05}-of-{:05}{}", file, ranks_->rank() + 1, ranks_->size(), kSafetensors);
    write_safetensors(place + "/" + name, tensors);
  }
}

std::string CheckpointDirectory::write(std::int64_t step, const Checkpoint& checkpoint,
                                       FunctionRef<void(const AtomicDirectory&)> write_first) const {
  std::optional<AtomicDirectory> directory;
  together([&] {
    if (!is_first()) return;
    make_directories(root_);
    std::uint64_t bytes = 0;
    for (const auto& [file, tensors] : checkpoint.tensors) bytes += nbytes(tensors);
    require_disk_space(root_, bytes, "a checkpoint");
    directory.emplace(path(step));
  });
  std::string place = directory.has_value() ? directory->path() : "";
  if (ranks_ != nullptr) place = ranks_->all_gather(place)[0];
  together([&] {
    write_own(place, checkpoint);
    if (!is_first()) return;
    write_first(*directory);
    for (const auto& [file, tensors] : checkpoint.tensors) {
      const std::string target = directory->file(file + std::string(kSafetensors));
      if (!tensors.empty() && !fs::exists(target)) write_safetensors(target, tensors);
    }
    write_file_atomically(directory->file(names_.state_file), checkpoint.state);
    if (!checkpoint.metadata.empty())
      write_file_atomically(directory->file(kRunMetadataFile), checkpoint.metadata);
  });
  together([&] {
    if (!is_first()) return;
    write_checksums(directory->path());
    directory->commit();
  });
  return path(step);
}

std::string CheckpointDirectory::write(std::int64_t step, const Checkpoint& checkpoint) const {
  return write(step, checkpoint, [](const AtomicDirectory&) {});
}

void CheckpointDirectory::verify(const std::string& path) const {
  INGOT_CHECK(fs::is_directory(path), IoError(path, "is not a directory"));
  for (const std::string& needed : {std::string(kChecksumsFile), names_.state_file}) {
    INGOT_CHECK(
        fs::exists(path + "/" + needed),
        FormatError(path, -1, needed,
                    "is missing: this is not a checkpoint of a training, or an unfinished one. To start "
                    "from its weights alone, give it as `model:`"));
  }
  verify_checksums(path);
}

SavedCheckpoint CheckpointDirectory::open(const std::string& path) const {
  verify(path);
  return {path, names_.state_file};
}

std::optional<SavedCheckpoint> CheckpointDirectory::newest() const {
  for (const std::string& swept : sweep_partial(root_))
    log(LogLevel::info, "ingot::checkpoint", "swept what an interrupted save left: " + swept);
  std::vector<CheckpointEntry> entries = list();
  std::string problems;
  for (; !entries.empty(); entries.pop_back()) {
    try {
      return open(entries.back().path);
    } catch (const Error& error) {
      log(LogLevel::warn, "ingot::checkpoint",
          fmt::format("passing over a damaged checkpoint: {}", error.what()));
      problems += fmt::format("\n  {}", printable_message(error));
    }
  }
  INGOT_CHECK(
      problems.empty(),
      in_lines(IoError(root_, "every checkpoint is damaged; move them away to start anew:" + problems)));
  return std::nullopt;
}

void CheckpointDirectory::prune(std::int64_t keep, std::int64_t best) const {
  if (!is_first()) return;
  const std::vector<CheckpointEntry> entries = list();
  const auto count = static_cast<std::int64_t>(entries.size());
  for (std::int64_t i = 0; i < count - keep; ++i) {
    const CheckpointEntry& entry = entries[static_cast<std::size_t>(i)];
    if (entry.step != best) remove_with_checksums(entry.path);
  }
}

void CheckpointDirectory::remove() const {
  for (const CheckpointEntry& entry : list()) remove_with_checksums(entry.path);
  std::error_code ignored;
  fs::remove(root_, ignored);
}

}  // namespace ingot

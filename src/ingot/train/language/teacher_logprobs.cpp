#include "ingot/train/language/teacher_logprobs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/json.h"
#include "ingot/ops/cast.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kInfoFile = "capture.json";
constexpr const char* kFormat = "ingot_teacher_logprobs";
constexpr std::size_t kPartElements = std::size_t{8} << 20;  // 64 MiB with their indices

std::string part_name(std::int64_t number) { return fmt::format("logprobs-{:05}.safetensors", number); }

std::span<const std::int32_t> row_of(const Tensor& all, std::int64_t row) {
  const auto length = static_cast<std::size_t>(all.dim(1));
  return {all.data<std::int32_t>() + row * all.dim(1), length};
}

}  // namespace

std::int64_t sequence_key(const data::Batch& batch, std::int64_t row) {
  const auto targets = row_of(batch.targets, row);
  std::size_t length = targets.size();
  while (length > 0 && targets[length - 1] == data::kNoTarget) --length;
  Sha256 hash;
  for (const Tensor* part : {&batch.tokens, &batch.targets, &batch.positions})
    hash.update(std::as_bytes(row_of(*part, row).first(length)));
  const auto digest = hash.finish();
  std::int64_t key = 0;
  std::memcpy(&key, digest.data(), sizeof key);
  return key;
}

std::int64_t targets_of_row(const data::Batch& batch, std::int64_t row) {
  const auto is_target = [](std::int32_t target) { return target != data::kNoTarget; };
  return std::ranges::count_if(row_of(batch.targets, row), is_target);
}

std::vector<std::int32_t> target_positions(const data::Batch& batch) {
  std::vector<std::int32_t> positions;
  const auto* targets = batch.targets.data<std::int32_t>();
  for (std::int64_t i = 0; i < batch.targets.numel(); ++i)
    if (targets[i] != data::kNoTarget) positions.push_back(static_cast<std::int32_t>(i));
  return positions;
}

LogprobsWriter::LogprobsWriter(const std::string& directory, CaptureInfo info)
    : directory_(directory), info_(std::move(info)) {}

void LogprobsWriter::add(std::int64_t key, std::span<const std::int32_t> indices,
                         std::span<const float> log_probs) {
  keys_.push_back(key);
  indices_.insert(indices_.end(), indices.begin(), indices.end());
  log_probs_.insert(log_probs_.end(), log_probs.begin(), log_probs.end());
  ends_.push_back(std::ssize(indices_) / info_.top_k);
  ++info_.sequences;
  if (indices_.size() >= kPartElements) write_part();
}

void LogprobsWriter::write_part() {
  if (keys_.empty()) return;
  const Shape shape{ends_.back(), info_.top_k};
  info_.targets += ends_.back();
  write_safetensors(directory_.file(part_name(++parts_)), {{"keys", Tensor::from(keys_, {std::ssize(keys_)})},
                                                           {"ends", Tensor::from(ends_, {std::ssize(ends_)})},
                                                           {"indices", Tensor::from(indices_, shape)},
                                                           {"log_probs", Tensor::from(log_probs_, shape)}});
  keys_.clear();
  ends_.clear();
  indices_.clear();
  log_probs_.clear();
}

CaptureInfo LogprobsWriter::finish() {
  write_part();
  const Json json{{"format", kFormat},        {"version", 1},
                  {"top_k", info_.top_k},     {"classes", info_.classes},
                  {"parts", parts_},          {"sequences", info_.sequences},
                  {"targets", info_.targets}, {"teacher", info_.teacher},
                  {"data", info_.data}};
  write_file_atomically(directory_.file(kInfoFile), dump_json(json, 2) + "\n");
  directory_.commit();
  return info_;
}

CapturedLogprobs::CapturedLogprobs(const std::string& directory) : directory_(directory) {
  const std::string path = directory + "/" + kInfoFile;
  const Json json = parse_json<Json>(read_file(path), path);
  const bool known = json.is_object() && json.value("format", "") == kFormat && json.value("version", 0) == 1;
  INGOT_CHECK(known, FormatError(path, 0, "format",
                                 "is not that of log-probabilities which `ingot data capture` wrote"));
  try {
    info_ = {.top_k = json.at("top_k").get<std::int64_t>(),
             .classes = json.at("classes").get<std::int64_t>(),
             .sequences = json.at("sequences").get<std::int64_t>(),
             .targets = json.at("targets").get<std::int64_t>(),
             .teacher = json.at("teacher").get<std::string>(),
             .data = json.at("data").get<std::string>()};
    for (std::int64_t i = 1; i <= json.at("parts").get<std::int64_t>(); ++i)
      read_part(directory + "/" + part_name(i));
  } catch (const nlohmann::json::exception& error) {
    throw FormatError(path, 0, "document", error.what());
  }
}

void CapturedLogprobs::read_part(const std::string& path) {
  const auto source = open_weights(path);
  const auto keys = source->load_tensor("keys").to_vector<std::int64_t>(),
             ends = source->load_tensor("ends").to_vector<std::int64_t>();
  Part part{source->load_tensor("indices"), source->load_tensor("log_probs")};
  const Shape shape{ends.empty() ? 0 : ends.back(), info_.top_k};
  const bool fits = !keys.empty() && keys.size() == ends.size() && std::ranges::is_sorted(ends) &&
                    ends.front() >= 0 && part.indices.dtype() == DType::i32 &&
                    part.log_probs.dtype() == DType::f32 && part.indices.shape() == shape &&
                    part.log_probs.shape() == shape;
  INGOT_CHECK(fits, FormatError(path, 0, "indices", "do not fit to what else is there; capture it again"));
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    slots_.insert_or_assign(keys[i], Slot{parts_.size(), begin, ends[i]});
    begin = ends[i];
  }
  parts_.push_back(std::move(part));
}

CapturedLogprobs::Rows CapturedLogprobs::of(const data::Batch& batch, std::int64_t rows,
                                            Device device) const {
  const auto size = static_cast<std::size_t>(rows * info_.top_k);
  std::vector<std::int64_t> indices;
  std::vector<float> log_probs;
  indices.reserve(size);
  log_probs.reserve(size);
  for (std::int64_t r = 0; r < batch.rows(); ++r) {
    const std::int64_t count = targets_of_row(batch, r);
    if (count == 0) continue;
    const auto found = slots_.find(sequence_key(batch, r));
    INGOT_CHECK(found != slots_.end() && found->second.end - found->second.begin == count,
                InvalidConfig("kd_logprobs",
                              fmt::format("{} has nothing of a sequence of the data: it was captured with "
                                          "another document_mask or other targets; capture it again",
                                          directory_)));
    const Slot& slot = found->second;
    const Part& part = parts_[slot.part];
    const std::int64_t begin = slot.begin * info_.top_k, end = slot.end * info_.top_k;
    indices.insert(indices.end(), part.indices.data<std::int32_t>() + begin,
                   part.indices.data<std::int32_t>() + end);
    log_probs.insert(log_probs.end(), part.log_probs.data<float>() + begin,
                     part.log_probs.data<float>() + end);
  }
  const bool within = std::ranges::all_of(
      indices, [this](std::int64_t index) { return index >= 0 && index < info_.classes; });
  INGOT_CHECK(within, FormatError(directory_, 0, "indices",
                                  fmt::format("are not all below the {} classes", info_.classes)));
  indices.resize(size);
  log_probs.resize(size);
  const Shape shape{rows, info_.top_k};
  return {to(Tensor::from(indices, shape), device), to(Tensor::from(log_probs, shape), device)};
}

}  // namespace ingot

#include "ingot/data/samples.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/base/scope.h"
#include "ingot/data/record.h"

namespace ingot::data {
namespace {

constexpr std::size_t kBatch = 1024;  // records: enough for all threads, little beside the memory
constexpr std::size_t kShown = 600;   // bytes of a sample in a message

/// Encodes records batch by batch on all threads, and gives the samples in order.
class BatchEncoder {
 public:
  BatchEncoder(const SampleEncoder& encoder, SampleReport& report, AddDocument add)
      : encoder_(encoder), report_(report), add_(add) {}

  void take(const Record& record, RecordLocation location) {
    location.location += fmt::format(", sample {}", ++count_);
    records_.emplace_back(record.json, std::move(location));
    if (records_.size() == kBatch) flush();
  }

  void flush() {
    const Scope scope(ScopeKind::data, "encode samples");
    std::vector<EncodedSample> samples(records_.size());
    std::vector<std::exception_ptr> errors(records_.size());
    parallel_share(
        static_cast<std::int64_t>(records_.size()), 1, 8, [&](std::int64_t begin, std::int64_t end) {
          for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
            try {
              samples[i] = encoder_.encode(records_[i].first, records_[i].second);
            } catch (...) {
              errors[i] =
                  std::current_exception();  // the first in order is told, whichever thread was faster
            }
          }
        });
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (errors[i] != nullptr) std::rethrow_exception(errors[i]);
      give(samples[i], records_[i].second);
    }
    records_.clear();
  }

  std::int64_t count() const { return count_; }

  /// The first sample of which nothing is trained, for the message.
  [[noreturn]] void fail_all_masked() const {
    throw InvalidConfig(
        "roles_to_train",
        fmt::format("nothing in the {} samples is trained: every token is masked. {} is, as the model reads "
                    "it: {}",
                    count_, masked_location_, masked_shown_));
  }

 private:
  void give(const EncodedSample& sample, const RecordLocation& location) {
    if (sample.anything_trained()) {
      report_.unterminated += sample.unterminated ? 1 : 0;
      return add_(sample.tokens, sample.trained);
    }
    if (report_.all_masked++ > 0) return;
    masked_location_ = fmt::format("{}, {}", location.path, location.location);
    masked_shown_ = encoder_.show(sample);
    if (masked_shown_.size() > kShown) masked_shown_ = masked_shown_.substr(0, kShown) + " ...";
  }

  const SampleEncoder& encoder_;
  SampleReport& report_;
  AddDocument add_;
  std::vector<std::pair<nlohmann::ordered_json, RecordLocation>> records_;
  std::int64_t count_ = 0;
  std::string masked_location_, masked_shown_;
};

void encode_all(const SourceOptions& source, const std::vector<SourceFile>& files,
                const SampleEncoder& encoder, SampleReport& report, AddDocument add) {
  report.all_masked = report.unterminated = 0;
  BatchEncoder batches(encoder, report, add);
  for_each_record(
      source, files, [&](const Record& record) { return encoder.is_record(record); },
      [&](const Record& record, const RecordLocation& location) {
        batches.take(record, location);
        return true;
      });
  batches.flush();
  INGOT_CHECK(batches.count() > 0,
              IoError(fmt::format("{}", fmt::join(source.paths, ", ")), "holds no records"));
  if (report.all_masked == batches.count()) batches.fail_all_masked();
}

}  // namespace

std::shared_ptr<const TokenStore> load_samples(const SourceOptions& source, const SampleEncoder& encoder,
                                               const TokenCacheOptions& cache, SampleReport& report) {
  report = {};
  const std::vector<SourceFile> files = list_files(source);
  report.cache.left_out = describe_left_out(files);
  const std::string key = source_key(source, files, {encoder.identity});
  auto store = cached_tokens(key, encoder.vocab_size, cache, report.cache,
                             [&](AddDocument add) { encode_all(source, files, encoder, report, add); });
  report.samples = store->documents();
  report.tokens = store->size();
  for (std::int64_t i = 0; i < store->size(); ++i) report.trained_tokens += store->trained(i) ? 1 : 0;
  return store;
}

}  // namespace ingot::data

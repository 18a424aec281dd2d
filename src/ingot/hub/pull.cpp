#include "ingot/hub/pull.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/hub/select_files.h"

namespace ingot::hub {
namespace {

namespace fs = std::filesystem;

/// Thrown through a transfer that has to end because another one failed.
struct Cancelled {};

/// Beside the cache, not in a directory that belongs to somebody else.
std::string lock_of(const std::string& target) {
  return fmt::format("{}/locks/{}.lock", cache_directory(),
                     sha256_hex(fs::absolute(target).string()).substr(0, 32));
}

class Puller {
 public:
  Puller(HubClient& client, HubRepo repo, std::string commit, std::vector<HubFile> files,
         const PullOptions& options)
      : client_(client),
        repo_(std::move(repo)),
        commit_(std::move(commit)),
        files_(std::move(files)),
        options_(options),
        cache_(client.options().cache_directory),
        results_(files_.size()) {}

  std::vector<PulledFile> run() {
    // The largest first: the last to start should be short.
    std::vector<std::size_t> order(files_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::size_t i) { return files_[i].size.value_or(0); });
    std::vector<std::thread> threads;
    const auto count = static_cast<std::size_t>(std::clamp(options_.parallel, 1, 32));
    for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
      threads.emplace_back([&] { work(order); });
    }
    for (std::thread& thread : threads) thread.join();
    if (bar_) bar_->update(done_, files_text());
    if (failure_) std::rethrow_exception(failure_);
    return std::move(results_);
  }

 private:
  void work(const std::vector<std::size_t>& order) {
    for (std::size_t next = next_++; next < order.size() && !stop_; next = next_++) {
      try {
        fetch(order[next]);
      } catch (const Cancelled&) {
        return;
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        stop_ = true;
        return;
      }
    }
  }

  void arrived(std::int64_t bytes) {
    if (stop_) throw Cancelled();
    done_ += bytes;
    const std::lock_guard lock(mutex_);
    if (bar_ && bar_->due()) bar_->update(done_, files_text());
  }

  std::string files_text() const { return fmt::format("{}/{} files", finished_.load(), files_.size()); }

  /// Where everything is there already, no bar is shown.
  void show_bar() {
    const std::lock_guard lock(mutex_);
    if (bar_) return;
    std::int64_t total = 0;
    for (const HubFile& file : files_) total += static_cast<std::int64_t>(file.size.value_or(0));
    bar_.emplace(ProgressOptions{
        .label = "pulling " + repo_.id, .total = total, .bytes = true, .mode = options_.progress});
  }

  void fetch(std::size_t index) {
    HubFile& file = files_[index];
    if (file.etag.empty()) client_.complete(repo_, commit_, file);
    Download wanted{.request = client_.file_request(repo_, commit_, file.path),
                    .size = file.size,
                    .sha256 = file.sha256,
                    .git_sha1 = file.git_sha1,
                    .on_bytes = [this](std::int64_t bytes) { arrived(bytes); }};
    const bool to_cache = options_.directory.empty();
    wanted.target = to_cache ? cache_.blob(repo_, file.etag) : options_.directory + "/" + file.path;
    bool there = to_cache && fs::exists(cache_.snapshot(repo_, commit_) + "/" + file.path);
    if (!there) {
      // In the cache, files are what their name says; elsewhere anybody may have written to them.
      const FileLock lock(to_cache ? cache_.lock(repo_, file.etag) : lock_of(wanted.target));
      there = to_cache ? fs::exists(wanted.target) : is_intact(wanted.target, wanted);
      if (!there) {
        show_bar();
        download(client_.http(), wanted);
      }
      if (to_cache) cache_.link(repo_, commit_, file.path, file.etag);
    }
    if (there) arrived(static_cast<std::int64_t>(file.size.value_or(0)));
    ++finished_;
    results_[index] = {file.path, file.size.value_or(0), !there};
  }

  HubClient& client_;
  HubRepo repo_;
  std::string commit_;
  std::vector<HubFile> files_;
  const PullOptions& options_;
  HubCache cache_;
  std::vector<PulledFile> results_;
  std::optional<ProgressBar> bar_;
  std::atomic<std::size_t> next_ = 0, finished_ = 0;
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

std::vector<std::string> names_of(const std::vector<HubFile>& files) {
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const HubFile& file : files) names.push_back(file.path);
  return names;
}

}  // namespace

PullResult pull(HubClient& client, const HubRepo& repo, const PullOptions& options) {
  HubListing listing = client.list(repo);
  std::vector<std::string> include = options.include;
  if (!repo.file.empty()) include.push_back(repo.file);
  if (repo.dataset && include.empty()) include = {"*"};
  std::vector<HubFile> files = select_files(listing.files, include, options.exclude);
  const HubCache cache(client.options().cache_directory);
  const bool whole = repo.file.empty() && options.include.empty() && options.exclude.empty();
  PullResult result{.path = options.directory, .commit = listing.commit};
  if (options.directory.empty()) {
    cache.prepare();
    result.path = cache.snapshot(repo, listing.commit);
    if (whole) cache.begin(repo, listing.commit, names_of(files));
  }
  result.files = Puller(client, repo, listing.commit, std::move(files), options).run();
  // Not before: without the network the name leads to the last commit that is there whole.
  if (!options.directory.empty()) return result;
  cache.write_ref(repo, listing.commit);
  if (whole) cache.end(repo, listing.commit);
  return result;
}

}  // namespace ingot::hub

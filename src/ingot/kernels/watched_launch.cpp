#include "ingot/kernels/watched_launch.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/trace.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/launch_record.h"

namespace ingot::kernels {
namespace {

thread_local LaunchObserver* observer = nullptr;

std::array<std::string_view, kMemoryTags> tag_names() {
  std::array<std::string_view, kMemoryTags> names;
  for (std::size_t tag = 0; tag < kMemoryTags; ++tag) names[tag] = name(static_cast<MemoryTag>(tag));
  return names;
}

// The graph of a device's memory.
const std::string& memory_graph(Device device) {
  static std::mutex mutex;
  static std::map<Device, std::string> names;
  const std::lock_guard lock(mutex);
  std::string& name = names[device];
  if (name.empty()) name = fmt::format("memory {} (bytes)", to_string(device));
  return name;
}

// Graphs of the memory in use, by tag: one for each device, at most every so many nanoseconds.
void sample_memory(std::int64_t now) {
  constexpr std::int64_t kBetweenSamples = 100'000;
  static std::atomic<std::int64_t> last{0};
  std::int64_t before = last.load(std::memory_order_relaxed);
  if (now - before < kBetweenSamples || !last.compare_exchange_strong(before, now)) return;
  for (ComputeBackend* device : BackendRegistry::instance().all()) {
    std::array<double, kMemoryTags> values{};
    for (std::size_t tag = 0; tag < kMemoryTags; ++tag)
      values[tag] = static_cast<double>(device->memory().allocated(static_cast<MemoryTag>(tag)));
    trace::counter(memory_graph(device->device()), tag_names(), values);
  }
}

// Launches on devices that work beside the host, by the devices' clocks. Marks are of one thread at a time.
class DeviceRows {
 public:
  static DeviceRows& instance() {
    static DeviceRows* rows = [] {
      auto* made =
          new DeviceRows;  // NOLINT(cppcoreguidelines-owning-memory): marks outlive no device at exit
      trace::before_end([made] { made->finish(); });
      return made;
    }();
    return *rows;
  }

  DeviceClock::Mark mark(Stream stream) {
    const std::lock_guard lock(mutex_);
    DeviceClock* clock = clock_of(stream);
    return clock != nullptr ? clock->mark(stream) : nullptr;
  }
  void add(Stream stream, const char* kernel, std::uint32_t details, DeviceClock::Mark from) {
    const std::lock_guard lock(mutex_);
    const DeviceClock::Mark to = clock_of(stream)->mark(stream);
    if (to == nullptr) return;
    spans_.push_back({.stream = stream, .kernel = kernel, .details = details, .from = from, .to = to});
    if (spans_.size() >= settle_at_) settle(false);
  }

 private:
  struct Timeline {
    std::unique_ptr<DeviceClock> clock;
    DeviceClock::Mark origin = nullptr;
    std::int64_t origin_time = 0;
  };
  struct Span {
    Stream stream;
    const char* kernel;
    std::uint32_t details;
    DeviceClock::Mark from, to;
  };
  static constexpr std::size_t kBetweenSettling = 4096;

  // Null where the device has no clock, or its first launch is captured.
  DeviceClock* clock_of(Stream stream) {
    const auto [found, missing] = timelines_.try_emplace(stream.device);
    Timeline& timeline = found->second;
    if (missing) timeline.clock = backend(stream.device).make_clock();
    if (timeline.clock != nullptr && timeline.origin == nullptr) {
      timeline.origin = timeline.clock->mark(stream);
      if (timeline.origin == nullptr) return nullptr;
      static_cast<void>(timeline.clock->seconds(timeline.origin, timeline.origin));  // waits for it
      timeline.origin_time = trace::now();
    }
    return timeline.clock.get();
  }

  void settle(bool all) {
    std::erase_if(spans_, [&](const Span& span) {
      Timeline& timeline = timelines_.at(span.stream.device);
      DeviceClock& clock = *timeline.clock;
      if (!all && !clock.reached(span.to)) return false;
      const auto at = [&](DeviceClock::Mark mark) {
        return timeline.origin_time + static_cast<std::int64_t>(clock.seconds(timeline.origin, mark) * 1e9);
      };
      const trace::Row row = trace::row(
          to_string(span.stream.device),
          span.stream.native == nullptr ? "default stream" : fmt::format("stream {}", span.stream.native));
      trace::add({.kind = ScopeKind::kernel,
                  .name = span.kernel,
                  .begin = at(span.from),
                  .end = at(span.to),
                  .details = span.details,
                  .row = row});
      clock.reuse(span.from);
      clock.reuse(span.to);
      return true;
    });
    settle_at_ = spans_.size() + kBetweenSettling;
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    settle(true);
    timelines_.clear();
  }

  std::mutex mutex_;
  std::map<Device, Timeline> timelines_;
  std::vector<Span> spans_;
  std::size_t settle_at_ = kBetweenSettling;
};

}  // namespace

LaunchObserver::LaunchObserver() : outer_(std::exchange(observer, this)) {}
LaunchObserver::~LaunchObserver() { observer = outer_; }

WatchedLaunch::WatchedLaunch(const char* kernel, const char* implementation, Stream stream,
                             const LaunchWork& work)
    : kernel_(kernel),
      stream_(stream),
      runs_(observer == nullptr || observer->launching({kernel, implementation, stream, work})),
      scope_(ScopeKind::kernel, kernel),
      timer_(kernel, implementation, stream) {
  if (!trace::active()) return;
  sample_memory(scope_.begin());
  details_ = trace::details(LaunchRecord(implementation, work).bytes(), LaunchRecord::describe);
  scope_.describe(details_);
  if (!stream.device.is_cpu()) from_ = DeviceRows::instance().mark(stream);
}

// A device that fails is reported by who waits for its work.
WatchedLaunch::~WatchedLaunch() {
  if (from_ == nullptr) return;
  try {
    DeviceRows::instance().add(stream_, kernel_, details_, from_);
  } catch (const Error&) {
    from_ = nullptr;
  }
}

}  // namespace ingot::kernels

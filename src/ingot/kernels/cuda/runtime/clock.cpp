#include "ingot/kernels/cuda/runtime/clock.h"

#include <vector>

#include "ingot/kernels/cuda/runtime/driver.h"

namespace ingot::kernels::cuda {
namespace {

// Events are made this many at a time, so that few launches of many wait for that.
constexpr int kEventsAtATime = 256;

class CudaClock final : public DeviceClock {
 public:
  explicit CudaClock(int device) : device_(device) {}
  ~CudaClock() override {
    for (void* event : events_) driver::destroy_event(event);
  }
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;

  Mark mark(Stream stream) override {
    driver::use(device_);
    if (!driver::can_wait(stream.native)) return nullptr;
    if (free_.empty()) make_events();
    void* event = free_.back();
    driver::record(event, stream.native);
    free_.pop_back();
    return event;
  }
  bool reached(Mark mark) override { return driver::done(mark); }
  double seconds(Mark from, Mark to) override { return driver::seconds_between(from, to); }
  void reuse(Mark mark) override { free_.push_back(mark); }

 private:
  void make_events() {
    for (int i = 0; i < kEventsAtATime; ++i)
      free_.push_back(events_.emplace_back(driver::create_timed_event()));
  }

  int device_;
  std::vector<void*> events_, free_;
};

}  // namespace

std::unique_ptr<DeviceClock> make_clock(int index) { return std::make_unique<CudaClock>(index); }

}  // namespace ingot::kernels::cuda

#include "ingot/autograd/grad_mode.h"

#include <atomic>
#include <memory>

#include "ingot/autograd/provenance.h"

namespace ingot {
namespace {
thread_local bool enabled = true;
thread_local bool later = false;
thread_local bool selective = false;
std::atomic<bool> anomaly = false;
}  // namespace

bool grad_enabled() { return enabled; }

GradMode::GradMode(bool value) : previous_(enabled) { enabled = value; }
GradMode::~GradMode() { enabled = previous_; }

bool recorded_later() { return later && !enabled; }

RecordedLater::RecordedLater() : previous_(later) { later = true; }
RecordedLater::~RecordedLater() { later = previous_; }

bool selective_recompute() { return selective; }

SelectiveRecompute::SelectiveRecompute(bool value) : previous_(selective) { selective = value; }
SelectiveRecompute::~SelectiveRecompute() { selective = previous_; }

bool detect_anomaly_enabled() { return anomaly.load(std::memory_order_relaxed); }
// Messages name modules and where values came from.
void set_detect_anomaly(bool value) {
  static std::unique_ptr<RecordOrigins> record;
  if (anomaly.exchange(value) != value) record = value ? std::make_unique<RecordOrigins>(true) : nullptr;
}

}  // namespace ingot

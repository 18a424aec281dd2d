#include "ingot/autograd/grad_mode.h"

#include <atomic>

namespace ingot {
namespace {
thread_local bool enabled = true;
std::atomic<bool> anomaly = false;
}  // namespace

bool grad_enabled() { return enabled; }

GradMode::GradMode(bool value) : previous_(enabled) { enabled = value; }
GradMode::~GradMode() { enabled = previous_; }

bool detect_anomaly_enabled() { return anomaly.load(std::memory_order_relaxed); }
void set_detect_anomaly(bool value) { anomaly.store(value, std::memory_order_relaxed); }

}  // namespace ingot

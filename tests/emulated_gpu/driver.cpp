#include "ingot/kernels/cuda/runtime/driver.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/memory.h"
#include "tests/emulated_gpu/queue.h"

#include "ingot/base/error.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda::driver {
namespace {

struct EmulatedStream {
  int device;
};

// Each device has a default stream, of which null is the name. Others are named by themselves.
void* own_name(void* stream) {
  static auto& defaults = *new std::array<EmulatedStream, emulation::kMostDevices>{{{0}, {1}}};
  return stream != nullptr ? stream : &defaults.at(static_cast<std::size_t>(emulation::current_device()));
}
int device_of(void* stream) { return static_cast<EmulatedStream*>(own_name(stream))->device; }
emulation::QueuePosition end_of(void* stream) { return emulation::end_of(own_name(stream)); }

// What works on the memory of one device, in its turn of the stream's work.
void submit_to(int device, void* stream, std::function<void()> work) {
  emulation::submit(stream, [device, work = std::move(work)] {
    const int before = emulation::current_device();
    emulation::use_device(device);
    try {
      work();
    } catch (...) {
      emulation::use_device(before);
      throw;
    }
    emulation::use_device(before);
  });
}

using Recording = std::vector<emulation::Work>;
std::map<void*, Recording> recordings;  // of the streams that are being captured

emulation::Waits waited;

struct EmulatedEvent {
  int device;
  emulation::QueuePosition position{};
  bool captured = false;  // recorded in a stream that only records: it can never be waited for
  bool timed = false;
  std::shared_ptr<double> time{};  // by the host's clock, when the work before it was done
};
EmulatedEvent& event_of(void* event) { return *static_cast<EmulatedEvent*>(event); }

// The next piece of the stream's work is to look at the clock.
std::shared_ptr<double> note_time(void* stream) {
  auto time = std::make_shared<double>(0);
  emulation::submit(stream, [time] {
    *time = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  });
  return time;
}

std::map<const char*, std::size_t> pinned;  // memory of the host that copies reach at any time

bool is_pinned(const void* data) {
  const auto* at = static_cast<const char*>(data);
  const auto after = pinned.upper_bound(at);
  if (after == pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return at < begin + bytes;
}

bool is_pageable(const void* data) { return !emulation::device_of(data) && !is_pinned(data); }

void check_not_capturing(void* stream) {
  INGOT_CHECK(!recordings.contains(stream),
              Error("CUDA: work on the device failed: operation not permitted when stream is capturing"));
}

void check_waitable(void* event) {
  INGOT_CHECK(!event_of(event).captured,
              Error("CUDA: work on the device failed: operation not permitted on an event last recorded in a "
                    "capturing stream"));
}

// A recording works in one order, that of its stream.
void check_recorded_with(void* event) {
  INGOT_CHECK(event_of(event).captured || event_of(event).position.queue == nullptr,
              Error("CUDA: waiting for an event failed: dependency created on uncaptured work in another "
                    "stream"));
}

}  // namespace

int device_count(std::string&) noexcept { return emulation::devices(); }
DeviceProperties properties(int device) {
  // Tests of ranks say which device of which machine each has.
  const char* name = std::getenv("EMULATED_GPU_NAME");        // NOLINT(concurrency-mt-unsafe)
  const char* address = std::getenv("EMULATED_GPU_ADDRESS");  // NOLINT(concurrency-mt-unsafe)
  return {.name = name != nullptr ? name : "emulated CUDA device (tests only)",
          .major = 9,
          .minor = 0,
          .multiprocessors = 4,
          .memory = emulation::device_memory(),
          .shared_memory = emulation::shared_memory(device),
          .pci_address = address != nullptr ? address : ""};
}
std::string version() { return "emulated"; }
std::string why_lost(int device) {
  return emulation::is_lost(device) ? "CUDA: an illegal memory access was encountered" : "";
}
void use(int device) {
  INGOT_CHECK(!emulation::is_lost(device), Error(why_lost(device)));
  emulation::use_device(device);
}
MemorySizes memory_sizes() { return {emulation::free_memory(), emulation::device_memory()}; }

void* allocate(std::size_t bytes) { return emulation::allocate(bytes); }
void deallocate(void* data) noexcept {
  ++waited.frees;
  emulation::run_all();  // as on a GPU, an error of earlier work is not the business of who frees memory
  emulation::deallocate(data);
}
void* allocate_pinned(std::size_t bytes) {
  void* data = std::malloc(bytes);
  pinned[static_cast<char*>(data)] = bytes;
  return data;
}
void deallocate_pinned(void* data) noexcept {
  pinned.erase(static_cast<char*>(data));
  std::free(data);
}

void copy(void* to, const void* from, std::size_t bytes, void* stream) {
  const bool waits = is_pageable(to) || is_pageable(from);
  INGOT_CHECK(!recordings.contains(stream) || !waits, Error(kHostCopyInCapture));
  emulation::submit(stream, [=] {
    const emulation::Access access;
    std::memcpy(to, from, bytes);
    emulation::check_guards("copy");
  });
  if (!waits) return;
  ++waited.host_copies;
  emulation::run_until(end_of(stream));
}
void fill_bytes(void* to, std::uint8_t value, std::size_t bytes, void* stream) {
  submit_to(device_of(stream), stream, [=] {
    const emulation::Access access(emulation::current_device());
    std::memset(to, value, bytes);
    emulation::check_guards("fill_bytes");
  });
}

void* create_stream() { return new EmulatedStream{emulation::current_device()}; }
void destroy_stream(void* stream) noexcept {
  emulation::end_stream(stream);
  delete static_cast<EmulatedStream*>(stream);
}
void synchronize(void* stream) {
  check_not_capturing(stream);
  ++waited.streams;
  emulation::run_until(end_of(stream));
}
void* create_event() { return new EmulatedEvent{emulation::current_device()}; }
void* create_timed_event() { return new EmulatedEvent{.device = emulation::current_device(), .timed = true}; }
void destroy_event(void* event) noexcept { delete &event_of(event); }
void record(void* event, void* stream) {
  auto& [device, position, captured, timed, time] = event_of(event);
  INGOT_CHECK(device == device_of(stream),
              Error("CUDA: recording an event failed: invalid resource handle (it is of another device)"));
  captured = recordings.contains(stream);
  if (timed && !captured) time = note_time(stream);
  position = captured ? emulation::QueuePosition{} : end_of(stream);
}
void wait(void* stream, void* event) {
  if (recordings.contains(stream)) {
    check_recorded_with(event);
    return;
  }
  check_waitable(event);
  emulation::put_wait(own_name(stream), event_of(event).position);
}
void wait_for(void* event) {
  check_waitable(event);
  const emulation::QueuePosition& position = event_of(event).position;
  if (!emulation::done(position)) ++waited.events;
  emulation::run_until(position);
}
double seconds_between(void* from, void* to) {
  for (void* event : {from, to}) {
    INGOT_CHECK(event_of(event).timed, Error("CUDA: timing work failed: an event keeps no time"));
    wait_for(event);
  }
  return *event_of(to).time - *event_of(from).time;
}
bool can_wait(void* stream) { return !recordings.contains(stream); }
bool done(void* event) {
  check_waitable(event);
  return emulation::done(event_of(event).position);
}

void begin_capture(void* stream) {
  check_not_capturing(stream);
  recordings[stream];
}
void* end_capture(void* stream) {
  auto node = recordings.extract(stream);
  return new Recording(std::move(node.mapped()));
}
void abandon_capture(void* stream) noexcept { recordings.erase(stream); }
void launch_graph(void* graph, void* stream) {
  for (const emulation::Work& work : *static_cast<Recording*>(graph)) emulation::submit(stream, work);
}
void destroy_graph(void* graph) noexcept { delete static_cast<Recording*>(graph); }

}  // namespace ingot::kernels::cuda::driver

void ingot::kernels::cuda::register_libraries() {}

void ingot::kernels::cuda::emulation::submit(void* stream, std::function<void()> work) {
  const auto recording = driver::recordings.find(stream);
  if (recording == driver::recordings.end()) {
    put_work(driver::own_name(stream), std::move(work));
  } else {
    recording->second.push_back(std::move(work));
  }
}

void ingot::kernels::cuda::emulation::submit_kernel(const LaunchSite& site, std::function<void()> work) {
  const int device = site.stream.device.index;
  driver::use(device);
  if (driver::device_of(site.stream.native) != device)
    throw_launch_failed(site, {}, {}, 0, "invalid resource handle (the stream is of another device)");
  driver::submit_to(device, site.stream.native, std::move(work));
}

ingot::kernels::cuda::emulation::Waits ingot::kernels::cuda::emulation::waits() { return driver::waited; }

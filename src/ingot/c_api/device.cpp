#include "ingot/c_api/device.h"

#include <map>
#include <mutex>

#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/c_api/inner/objects.h"
#include "ingot/runtime/compute_backend.h"

using namespace ingot;
using namespace ingot::c_api;

IngotStream::~IngotStream() {
  if (owned) backend(stream.device).destroy_stream(stream);
}

namespace ingot::c_api {

Device device_arg(const char* device) {
  const Device parsed = device == nullptr ? kCpu : parse_device(device);
  static_cast<void>(backend(parsed));  // throws where this process has no such device
  return parsed;
}

namespace {

/// Strings that callers may keep.
const char* kept(const std::string& value) {
  static std::mutex mutex;
  static auto* const strings = new std::map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  return strings->emplace(value, value).first->second.c_str();
}

}  // namespace

const char* device_name(Device device) { return kept(to_string(device)); }

OnStream::OnStream(const IngotStream* stream, Device device) {
  if (stream == nullptr) return;
  stream_ = object_of(stream);
  INGOT_CHECK(stream_->stream.device == device,
              DeviceMismatch("the stream of a call", to_string(device), to_string(stream_->stream.device)));
  guard_.emplace(stream_->stream);
}

}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_initialize_options(IngotInitializeOptions* options, size_t size) {
  return call(__func__, [&] { fill_options(options, size); });
}

IngotStatus ingot_initialize(const IngotInitializeOptions* options) {
  return call(__func__, [&] {
    const auto o = options_or(options);
    if (o.threads < 0) throw InvalidArgument("options.threads", "is negative; 0 takes all processors");
    if (o.backend != nullptr) set_compute_backend(o.backend);
    if (o.threads > 0) set_num_threads(o.threads);
  });
}

IngotStatus ingot_set_log(const char* level, const char* file) {
  return call(__func__, [&] {
    init_logging({.level = parse_log_level(string_arg(level, "level")), .file = string_or_empty(file)});
  });
}

IngotStatus ingot_device_count(int32_t* count) {
  return call(__func__, [&] {
    result(count, "count") = static_cast<int32_t>(BackendRegistry::instance().all().size());
  });
}

IngotStatus ingot_device_info(int32_t index, IngotDeviceInfo* info, size_t size) {
  return call(__func__, [&] {
    const auto all = BackendRegistry::instance().all();
    if (index < 0 || static_cast<std::size_t>(index) >= all.size())
      throw InvalidArgument("index", "is " + std::to_string(index) + "; there are " +
                                         std::to_string(all.size()) + " devices, counted from 0");
    const ComputeBackend& one = *all[static_cast<std::size_t>(index)];
    const BackendCapabilities& can = one.capabilities();
    const IngotDeviceInfo values{.device = device_name(one.device()),
                                 .name = kept(can.device_name),
                                 .total_memory = can.total_memory,
                                 .compute_units = can.compute_units,
                                 .works_async = can.streams ? 1 : 0};
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_device_memory(const char* device, IngotMemoryInfo* info, size_t size) {
  return call(__func__, [&] {
    ComputeBackend& one = backend(device_arg(device));
    const MemoryInfo memory = one.memory_info();
    const IngotMemoryInfo values{.free = memory.free,
                                 .total = memory.total,
                                 .allocated = one.memory().allocated(),
                                 .peak = one.memory().peak()};
    fill(info, size, values, "info");
  });
}

IngotStatus ingot_device_reset_peak(const char* device) {
  return call(__func__, [&] { backend(device_arg(device)).memory().reset_peak(); });
}

IngotStatus ingot_device_trim(const char* device) {
  return call(__func__, [&] { backend(device_arg(device)).trim(); });
}

IngotStatus ingot_stream_create(const char* device, IngotStream** out) {
  return call(__func__, [&] {
    auto& stream = result(out, "out");
    stream = open_handle(std::make_shared<IngotStream>(backend(device_arg(device)).create_stream(), true));
  });
}

IngotStatus ingot_stream_wrap(const char* device, void* native, IngotStream** out) {
  return call(__func__, [&] {
    auto& stream = result(out, "out");
    const Device where = device_arg(device);
    if (native != nullptr && !backend(where).capabilities().streams)
      throw InvalidArgument("native", "has to be NULL for a device without streams");
    stream = open_handle(std::make_shared<IngotStream>(Stream{where, native}, false));
  });
}

IngotStatus ingot_stream_synchronize(IngotStream* stream) {
  return call(__func__, [&] {
    const Stream s = object_of(stream)->stream;
    backend(s.device).synchronize(s);
  });
}

IngotStatus ingot_stream_close(IngotStream* stream) {
  return call(__func__, [&] { close_handle(stream); });
}

IngotStatus ingot_event_create(const char* device, IngotEvent** out) {
  return call(__func__, [&] {
    auto& event = result(out, "out");
    event = open_handle(std::make_shared<IngotEvent>(backend(device_arg(device)).create_event()));
  });
}

IngotStatus ingot_event_record(IngotEvent* event, IngotStream* stream) {
  return call(__func__, [&] {
    const auto e = object_of(event);
    const auto s = object_of(stream);
    INGOT_CHECK(
        e->event.device == s->stream.device,
        DeviceMismatch("ingot_event_record", to_string(s->stream.device), to_string(e->event.device)));
    backend(e->event.device).record(e->event, s->stream);
  });
}

IngotStatus ingot_event_synchronize(IngotEvent* event) {
  return call(__func__, [&] {
    const auto e = object_of(event);
    backend(e->event.device).synchronize(e->event);
  });
}

IngotStatus ingot_stream_wait(IngotStream* stream, IngotEvent* event) {
  return call(__func__, [&] {
    const auto e = object_of(event);
    const auto s = object_of(stream);
    INGOT_CHECK(e->event.device == s->stream.device,
                DeviceMismatch("ingot_stream_wait", to_string(s->stream.device), to_string(e->event.device)));
    backend(s->stream.device).wait(s->stream, e->event);
  });
}

IngotStatus ingot_event_close(IngotEvent* event) {
  return call(__func__, [&] { close_handle(event); });
}

}  // extern "C"

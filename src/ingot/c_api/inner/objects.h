#pragma once

#include "ingot/c_api/device.h"
#include "ingot/c_api/inner/handles.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"

// What the opaque handles of devices and tensors stand for.

struct IngotStream : ingot::c_api::Object {
  static constexpr const char* kName = "stream";
  IngotStream(ingot::Stream s, bool own) : stream(s), owned(own) {}
  ~IngotStream() override;
  ingot::Stream stream;
  bool owned;
};

struct IngotEvent : ingot::c_api::Object {
  static constexpr const char* kName = "event";
  explicit IngotEvent(ingot::Event e) : event(e) {}
  ~IngotEvent() override { ingot::backend(event.device).destroy_event(event); }
  ingot::Event event;
};

namespace ingot::c_api {

/// The device that an argument names, which exists: "cpu", "cuda:1"; NULL: the CPU.
Device device_arg(const char* device);

}  // namespace ingot::c_api

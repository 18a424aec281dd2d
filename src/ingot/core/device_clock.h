#pragma once

#include "ingot/core/stream.h"

namespace ingot {

/// Tells by a device's own clock when it came to points of its streams' work. Of use by one thread at a time.
class DeviceClock {
 public:
  /// A point in a stream's work, of this clock; null: none.
  using Mark = void*;

  virtual ~DeviceClock() = default;
  /// Behind what the stream was given so far. Null while the stream is captured: that work has no time yet.
  virtual Mark mark(Stream stream) = 0;
  /// Whether the work before the mark is done.
  virtual bool reached(Mark mark) = 0;
  /// Seconds between two marks of one stream; waits for the work before them and reports its errors.
  virtual double seconds(Mark from, Mark to) = 0;
  /// Another mark may take its place: making one costs more than setting it.
  virtual void reuse(Mark mark) = 0;
};

}  // namespace ingot

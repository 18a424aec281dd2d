#pragma once

#include <string>
#include <string_view>

#include "ingot/base/parallel.h"

namespace ingot::serve {

/// Reads server-sent events as their bytes come.
class EventReader {
 public:
  /// Calls `on_data` with the data of each event that `bytes` completes. Other fields and comments are passed
  /// over.
  void take(std::string_view bytes, FunctionRef<void(const std::string& data)> on_data);

 private:
  void take_line(std::string_view line, FunctionRef<void(const std::string& data)> on_data);

  std::string line_;  // not complete yet
  std::string data_;  // of the event that is being read
  bool has_data_ = false;
};

}  // namespace ingot::serve

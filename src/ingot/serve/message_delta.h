#pragma once

#include <string>
#include <vector>

#include "ingot/serve/tool_format.h"

namespace ingot::serve {

/// What a piece of text adds to a message.
struct MessageDelta {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

}  // namespace ingot::serve

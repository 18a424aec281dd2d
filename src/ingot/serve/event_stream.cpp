#include "ingot/serve/event_stream.h"

#include <utility>

namespace ingot::serve {

void EventReader::take(std::string_view bytes, FunctionRef<void(const std::string& data)> on_data) {
  for (std::size_t end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n')) {
    line_ += bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    take_line(std::exchange(line_, {}), on_data);
  }
  line_ += bytes;
}

void EventReader::take_line(std::string_view line, FunctionRef<void(const std::string& data)> on_data) {
  constexpr std::string_view kData = "data:";
  if (line.empty()) {
    if (std::exchange(has_data_, false)) on_data(std::exchange(data_, {}));
    return;
  }
  if (!line.starts_with(kData)) return;
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

}  // namespace ingot::serve

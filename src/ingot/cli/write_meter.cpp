#include "ingot/cli/write_meter.h"

namespace ingot::cli {

WriteProgress WriteMeter::progress() {
  return [this](std::uint64_t done, std::uint64_t total) {
    stop_if_interrupted();
    if (!bar_)
      bar_.emplace(
          ProgressOptions{.label = label_, .total = static_cast<std::int64_t>(total), .bytes = true});
    bar_->update(static_cast<std::int64_t>(done));
  };
}

}  // namespace ingot::cli

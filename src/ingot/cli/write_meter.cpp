#include "ingot/cli/write_meter.h"

#include "ingot/base/error.h"
#include "ingot/base/units.h"

namespace ingot::cli {

WriteProgress WriteMeter::progress() {
  return [this](std::uint64_t done, std::uint64_t total) {
    INGOT_CHECK(!interrupted(), Error("interrupted; nothing that was written is kept"));
    if (!bar_) bar_.emplace(ProgressOptions{.label = label_, .total = static_cast<std::int64_t>(total)});
    bar_->update(static_cast<std::int64_t>(done), human_bytes(done));
  };
}

}  // namespace ingot::cli

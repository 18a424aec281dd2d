#include "ingot/text/post_processor.h"

#include <fmt/format.h>

#include "ingot/text/json_view.h"

namespace ingot::text {

namespace {

/// ByteLevel only moves offsets, which Ingot does not report.
class Nothing final : public PostProcessor {
 public:
  void apply(std::vector<std::int32_t>&) const override {}
};

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(
    const JsonView& config, FunctionRef<std::optional<std::int32_t>(std::string_view)> id_of) {
  const std::string type = config.string("type");
  if (type == "ByteLevel") return std::make_unique<Nothing>();
  config.fail(fmt::format("unknown post-processor \"{}\"", type));
  (void)id_of;
}

}  // namespace ingot::text

#include "ingot/text/decoder.h"

#include <fmt/format.h>

#include "ingot/text/byte_level.h"
#include "ingot/text/json_view.h"

namespace ingot::text {

namespace {

class ByteLevelDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) append_bytes_of(bytes, token);
    tokens.assign(1, std::move(bytes));
  }
  bool is_token_wise() const override { return true; }
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const JsonView& config) {
  const std::string type = config.string("type");
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  config.fail(fmt::format("unknown decoder \"{}\"", type));
}

}  // namespace ingot::text

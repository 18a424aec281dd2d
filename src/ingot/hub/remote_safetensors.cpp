#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/hub/byte_source.h"
#include "ingot/weights/safetensors.h"

namespace ingot::hub {
namespace {

class RemoteSafetensors final : public WeightSource {
 public:
  explicit RemoteSafetensors(ByteSourcePtr source)
      : WeightSource(source->name()), source_(std::move(source)) {
    SafetensorsHeader header = read_header();
    set_contents(std::move(header.tensors), std::move(header.metadata));
  }

  std::string_view format() const override { return "safetensors"; }
  WeightCapabilities capabilities() const override { return {.concurrent = true}; }

 protected:
  Tensor load(const TensorInfo& info) const override {
    INGOT_CHECK(info.dtype.has_value(), NotImplemented(fmt::format("{}: loading '{}': element type {}",
                                                                   location(), info.name, info.stored_as)));
    const Blob bytes = stored_range(info);
    if (*info.dtype == DType::boolean) {
      const auto bad = std::ranges::find_if(bytes.bytes, [](std::byte b) { return b > std::byte{1}; });
      INGOT_CHECK(
          bad == bytes.bytes.end(),
          FormatError(location(), static_cast<std::int64_t>(info.offset) + (bad - bytes.bytes.begin()),
                      info.name, "holds a byte other than 0 and 1 as a boolean"));
    }
    return tensor_in(bytes, 0, Shape(std::span<const std::int64_t>(info.shape)), *info.dtype);
  }

 private:
  Blob stored_range(const TensorInfo& info) const {
    std::vector<std::byte> bytes(info.bytes);
    source_->read(info.offset, bytes);
    return memory_blob(location(), std::move(bytes));
  }

  /// The first read guesses that the header is short; where it is not, a second fetches the rest.
  SafetensorsHeader read_header() const {
    constexpr std::uint64_t kGuess = 64 << 10;
    std::vector<std::byte> start(std::min(kGuess, source_->size()));
    source_->read(0, start);
    if (start.size() >= 8) {
      std::uint64_t length = 0;
      std::memcpy(&length, start.data(), 8);  // little-endian, as every machine that Ingot runs on
      const std::uint64_t end = std::min(std::min(length, kMaxSafetensorsHeader) + 8, source_->size());
      if (end > start.size()) {
        const std::size_t had = start.size();
        start.resize(end);
        source_->read(had, std::span(start).subspan(had));
      }
    }
    return parse_safetensors_header(start, source_->size(), location());
  }

  ByteSourcePtr source_;
};

}  // namespace

std::unique_ptr<WeightSource> open_remote_safetensors(ByteSourcePtr source) {
  return std::make_unique<RemoteSafetensors>(std::move(source));
}

}  // namespace ingot::hub

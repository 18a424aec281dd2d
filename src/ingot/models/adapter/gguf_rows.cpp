#include "ingot/models/adapter/gguf_rows.h"

#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/weights/weight_source.h"

namespace ingot {
namespace {

// f32 holds these row numbers exactly.
constexpr std::int64_t kMostRows = std::int64_t{1} << 24;

// A checkpoint of such matrices.
class NumberedRows final : public WeightSource {
 public:
  NumberedRows(const std::string& place, const std::vector<std::string>& names, const ModuleSize& size)
      : WeightSource(place), size_(size) {
    std::vector<TensorInfo> all;
    for (const std::string& name : names) {
      TensorInfo info;
      info.name = name;
      info.shape = {size.rows, 2};
      if (size.transposed) std::swap(info.shape[0], info.shape[1]);
      if (size.is_stack()) info.shape.insert(info.shape.begin(), size.experts);
      info.dtype = DType::f32;
      info.stored_as = "F32";
      all.push_back(std::move(info));
    }
    set_contents(std::move(all), {});
  }
  std::string_view format() const override { return "rows"; }

 protected:
  Tensor load(const TensorInfo& /*info*/) const override {
    const Tensor numbered = numbered_rows(size_);
    return size_.transposed ? contiguous(transpose(numbered, -2, -1)) : numbered;
  }

 private:
  ModuleSize size_;
};

}  // namespace

Tensor numbered_rows(const ModuleSize& size) {
  const std::int64_t count = size.is_stack() ? size.experts : 1;
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(2 * count * size.rows));
  for (std::int64_t row = 0; row < count * size.rows; ++row) {
    values.push_back(static_cast<float>(row % size.rows));
    values.push_back(1);
  }
  return size.is_stack() ? Tensor::from(values, {count, size.rows, 2}) : Tensor::from(values, {size.rows, 2});
}

GgufRows read_numbered_rows(std::string name, const Tensor& numbered) {
  GgufRows one{.name = std::move(name), .rows = {}, .factors = {}};
  const std::vector<float> values = contiguous(numbered).to_vector<float>();
  for (std::size_t i = 0; i < values.size(); i += 2) {
    one.factors.push_back(values[i + 1]);
    one.rows.push_back(values[i + 1] == 0 ? 0 : std::lround(values[i] / values[i + 1]));
  }
  return one;
}

std::vector<GgufRows> rows_in_gguf(const AdapterBase& base, const std::string& place,
                                   const std::string& module, const std::vector<std::string>& tensors,
                                   const ModuleSize& size) {
  const auto other = [&](std::string_view why) {
    return NotImplemented(fmt::format("{}: an adapter of '{}' in a GGUF file, {}", place, module, why));
  };
  if (size.rows >= kMostRows) throw other("which has too many rows");
  const bool experts = size.experts > 0;
  std::vector<GgufRows> all;
  try {
    const auto source = export_gguf_tensors(
        {base.config.to_json(), place, std::make_shared<NumberedRows>(place, tensors, size)});
    for (const TensorInfo& info : source->tensors()) {
      if (info.shape.size() != (experts ? 3U : 2U) || info.shape.back() != 2)
        throw other(experts ? "where it is not one stack" : "where it is not one matrix");
      const Tensor numbered = source->load_tensor(info.name);
      all.push_back(read_numbered_rows(info.name, experts ? select(numbered, 0, 0) : numbered));
    }
  } catch (const InvalidConfig&) {
    throw other("where its columns have another order");
  }
  if (all.empty()) throw other("which has no tensor for it");
  return all;
}

Tensor rows_to_gguf(const Tensor& b, const GgufRows& at, float scale) {
  const std::int64_t rank = b.dim(1);
  const Tensor values = contiguous(to(b, DType::f32));
  Tensor out = Tensor::empty({static_cast<std::int64_t>(at.rows.size()), rank});
  for (std::size_t i = 0; i < at.rows.size(); ++i)
    for (std::int64_t j = 0; j < rank; ++j)
      out.data<float>()[static_cast<std::int64_t>(i) * rank + j] =
          values.data<float>()[at.rows[i] * rank + j] * (at.factors[i] * scale);
  return out;
}

void rows_from_gguf(const Tensor& lora_b, const GgufRows& at, std::int64_t first, float scale,
                    const Tensor& b) {
  const std::int64_t rank = lora_b.dim(1), columns = b.dim(1);
  const Tensor values = contiguous(to(lora_b, DType::f32));
  for (std::size_t i = 0; i < at.rows.size(); ++i) {
    if (at.factors[i] == 0) continue;
    for (std::int64_t j = 0; j < rank; ++j)
      b.data<float>()[at.rows[i] * columns + first + j] =
          values.data<float>()[static_cast<std::int64_t>(i) * rank + j] * (scale / at.factors[i]);
  }
}

}  // namespace ingot

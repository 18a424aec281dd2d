#include "ingot/models/language/format_plan.h"

#include <fmt/format.h>

#include "ingot/models/architecture_check.h"
#include "ingot/models/language/decoder.h"

namespace ingot {
namespace {

/// Builds a model of shapes alone, and notes each matrix for which a quantized form is asked.
class FormatRecorder final : public ParamProvider {
 public:
  explicit FormatRecorder(std::string format) : format_(std::move(format)) {}
  Tensor provide(const ParamRequest& request) override { return shapes_.provide(request); }
  bool trainable() const override { return false; }
  quant::PackedPtr provide_quantized(const std::string& name, const Shape& shape) override {
    add(name, shape.back());
    return nullptr;
  }
  std::vector<quant::PackedPtr> provide_quantized_stack(const std::string& name,
                                                        const Shape& shape) override {
    for (std::int64_t e = 0; e < shape[0]; ++e) add(fmt::format("{}.{}", name, e), shape.back());
    return {};
  }
  const quant::StandIns& stand_ins() const { return stand_ins_; }

 private:
  void add(const std::string& name, std::int64_t cols) {
    stand_ins_.add(name, cols, quant::matrix_format(format_, cols, quant::matrix_role(name)));
  }

  std::string format_;
  ShapeRecorder shapes_;
  quant::StandIns stand_ins_;
};

}  // namespace

quant::StandIns stand_ins_of(const LanguageConfig& config, const std::string& format) {
  if (format.empty()) return {};
  FormatRecorder recorder(format);
  const LanguageModel model(config, recorder);
  return recorder.stand_ins();
}

}  // namespace ingot

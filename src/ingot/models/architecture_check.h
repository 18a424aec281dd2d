#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ingot/base/parallel.h"
#include "ingot/models/weight_map.h"
#include "ingot/nn/param_source.h"
#include "ingot/weights/weight_source.h"

namespace ingot {

/// A parameter that a model asks for: name and shape.
struct ParameterShape {
  std::string name;
  Shape shape;
};

/// Lists what a model asks for, and gives it placeholders that take no memory: the model can be built to be
/// asked, not to be run.
class ShapeRecorder final : public ParamProvider {
 public:
  Tensor provide(const ParamRequest& request) override;
  bool trainable() const override { return false; }
  const std::vector<ParameterShape>& parameters() const { return parameters_; }

 private:
  std::vector<ParameterShape> parameters_;
};

/// How a checkpoint fits a model, found from descriptions alone: no tensor is read.
struct ArchitectureReport {
  std::string family;                 ///< "qwen3"
  std::vector<std::string> variants;  ///< "tied head", "fused query, key and value", ...
  std::vector<std::string> missing, misshaped, unexpected;  ///< as lines of a message

  bool fits() const { return missing.empty() && misshaped.empty() && unexpected.empty(); }
  /// Throws Error that lists every problem, unless there is none. `origin` names the checkpoint.
  void require(const std::string& origin) const;
};

/// FormatError unless `weights` hold a tensor for each of the `layers` that the configuration's `key` says:
/// asked before so many are built to be compared.
void require_enough_tensors(std::int64_t layers, const char* key, const WeightSource& weights);

/// Compares the tensors of `weights` with what a model of `parameters` needs under `map`. Fills everything
/// but the family; variants are those that the names show.
ArchitectureReport check_architecture(const std::vector<ParameterShape>& parameters, const WeightMap& map,
                                      const WeightSource& weights);

/// Parameters straight from a checkpoint, each loaded, transformed and converted when the model asks for it,
/// so that loading needs little more memory than the model. Check the architecture first.
class MappedSource final : public ParamProvider {
 public:
  MappedSource(const WeightSource& weights, WeightMap map, LoadOptions options);
  ~MappedSource() override { drop_temporaries(); }
  MappedSource(const MappedSource&) = delete;
  MappedSource& operator=(const MappedSource&) = delete;
  Tensor provide(const ParamRequest& request) override;
  quant::PackedPtr provide_quantized(const std::string& name, const Shape& shape) override;
  std::vector<quant::PackedPtr> provide_quantized_stack(const std::string& name, const Shape& shape) override;
  quant::PackedPtr provide_quantized_part(const std::string& name, const Shape& whole,
                                          const MatrixPart& part) override;
  std::int64_t column_unit(const std::string& name, const Shape& shape) override;
  bool trainable() const override { return options_.trainable; }

 private:
  struct Imported {
    Tensor value;
    const Storage* shared = nullptr;  ///< of the file's tensor, which the value may still be
  };
  // What a parameter without stacks becomes, still on the CPU.
  Tensor loaded(const WeightRule& rule, const ParamRequest& request) const;
  quant::PackedPtr on_device(const quant::PackedPtr& matrix) const;
  // A tensor of the file as a rule without stacks says, in its own dtype.
  Imported imported(const WeightRule& rule, const std::string& parameter, const Shape& shape) const;
  Tensor stacked(const WeightRule& rule, const ParamRequest& request) const;
  DType dtype_of_parameter(const Tensor& stored, const ParamRequest& request) const;
  // Whether a parameter becomes what its format would leave of it, as values.
  bool rounds(const ParamRequest& request) const;
  quant::PackedPtr pack_stored(const std::string& theirs, const WeightRule& rule,
                               std::int64_t matrix = -1) const;
  quant::PackedPtr pack_few_rows(const std::string& name, const Shape& shape) const;
  Tensor rounded_values(const Tensor& weight, const std::string& name) const;
  quant::PackedPtr round_to_format(const Tensor& weight, const std::string& name) const;
  // From the store, or made and put there.
  quant::PackedPtr kept(const std::string& name, FunctionRef<quant::PackedPtr()> make) const;
  // What large tensors passed through on their way, which the allocator keeps.
  void drop_temporaries();

  const WeightSource& weights_;
  WeightMap map_;
  LoadOptions options_;
  std::map<std::string, std::string> stored_;  // the file's name by canonical name
  bool large_ = false;                         // the last tensor was
};

}  // namespace ingot

#include <map>

#include "ingot/base/error.h"
#include "ingot/onnx/node_error.h"
#include "ingot/onnx/program.h"
#include "ingot/onnx/weight_matrix.h"
#include "ingot/ops/view.h"

// Constant matrices of MatMul, Gemm and recurrent layers in the tiles that matmuls read, once: BLAS would
// rearrange them in each run.

namespace ingot::onnx {
namespace {

Values gemm_layer(const OpCall& call) {
  const Tensor& b = call.in(1, 2, 2);
  const Tensor weight = call.integer("transB", 0) != 0 ? b : transpose(b, 0, 1);
  return {WeightMatrix(weight, call.optional(kFirstTiles)).apply(call.in(0, 2, 2), call.optional(2))};
}
const OpRow kGemmLayer{"Gemm", gemm_layer};

constexpr std::int64_t kManyRows = 128;  // of a sequence, an image: nobody knows yet

class Prepacking {
 public:
  explicit Prepacking(Draft& draft) : draft_(draft) {}
  void run() {
    for (Node& node : draft_.nodes) {
      try {
        matmul(node) || gemm(node) || recurrent(node);
      } catch (const Error& error) {  // no memory for tiles
        rethrow_for_node(error, node, {});
      }
    }
  }

 private:
  bool matmul(Node& node);
  bool gemm(Node& node);
  bool recurrent(Node& node);
  /// The name of the tiles of a constant, seen as [out, in].
  const std::string& tiles_of(const std::string& name, const Tensor& weight, const char* layout);

  Draft& draft_;
  std::map<std::string, std::string> tiles_;  // of weights that several nodes share
};

const std::string& Prepacking::tiles_of(const std::string& name, const Tensor& weight, const char* layout) {
  auto [tiles, is_new] = tiles_.try_emplace(name + layout);
  if (is_new) {
    tiles->second = draft_.unused_name(name + layout);
    draft_.constants[tiles->second] = WeightMatrix::prepacked_tiles(weight);
  }
  return tiles->second;
}

bool Prepacking::matmul(Node& node) {
  if (node.op != "MatMul" || (node.fused != &kLinear && (!is_usual(node) || node.inputs.size() != 2)))
    return false;
  const Tensor* weight = draft_.constant(node.inputs[1], DType::f32, 2);
  if (weight == nullptr || !WeightMatrix::prefers_tiles(*weight, kManyRows)) return false;
  node.inputs.resize(kFirstTiles);
  node.inputs.push_back(tiles_of(node.inputs[1], transpose(*weight, 0, 1), " in tiles"));
  node.fused = &kLinear;
  return true;
}

bool Prepacking::gemm(Node& node) {
  if (node.op != "Gemm" || !is_usual(node) || node.inputs.size() < 2 || node.inputs.size() > 3) return false;
  const auto has = [&](const char* name) { return node.attributes.contains(name); };
  const Tensor* weight = draft_.constant(node.inputs[1], DType::f32, 2);
  const bool is_scaled = (has("alpha") && node.attributes.find("alpha")->second.number != 1) ||
                         (has("beta") && node.attributes.find("beta")->second.number != 1);
  if (weight == nullptr || is_scaled || !WeightMatrix::prefers_tiles(*weight, kManyRows)) return false;
  if (has("transA") && node.attributes.find("transA")->second.integer != 0) return false;
  const bool by_rows = has("transB") && node.attributes.find("transB")->second.integer != 0;
  const Tensor by_outputs = by_rows ? *weight : transpose(*weight, 0, 1);
  if (const std::string& name = input_of(node, 2); !name.empty()) {
    const Tensor* bias = draft_.constant(name, DType::f32, 1);
    if (bias == nullptr || bias->numel() != by_outputs.dim(0)) return false;
  }
  node.inputs.resize(kFirstTiles);
  node.inputs.push_back(tiles_of(node.inputs[1], by_outputs, by_rows ? " in tiles of rows" : " in tiles"));
  node.fused = &kGemmLayer;
  return true;
}

bool Prepacking::recurrent(Node& node) {
  const OpRow* prepacked = prepacked_recurrent(node.op);
  if (prepacked == nullptr || !node.domain.empty() || node.function != nullptr || node.fused != nullptr ||
      node.inputs.size() < 3 || node.inputs.size() > kFirstTiles)
    return false;
  const Tensor *weight = draft_.constant(node.inputs[1], DType::f32, 3),
               *recurrent = draft_.constant(node.inputs[2], DType::f32, 3);
  const auto fits = [](const Tensor* w, std::int64_t rows) {
    return w != nullptr && WeightMatrix::prefers_tiles(*w, rows) && w->is_contiguous();
  };
  // Directions and gates begin with a tile of their own.
  if (weight == nullptr || !fits(recurrent, 1) || recurrent->dim(2) % WeightMatrix::kTileRows != 0 ||
      recurrent->dim(1) % recurrent->dim(2) != 0 || weight->dim(1) != recurrent->dim(1) ||
      weight->dim(0) != recurrent->dim(0))
    return false;
  const auto tiles = [&](std::size_t i, const Tensor& w) {
    return tiles_of(node.inputs[i], reshape(w, {w.dim(0) * w.dim(1), w.dim(2)}), " in tiles of gates");
  };
  node.inputs.resize(kFirstTiles);
  node.inputs.push_back(fits(weight, kManyRows) ? tiles(1, *weight) : std::string());
  node.inputs.push_back(tiles(2, *recurrent));
  node.fused = prepacked;
  return true;
}

}  // namespace

void prepack_weights(Draft& draft) { Prepacking(draft).run(); }

}  // namespace ingot::onnx

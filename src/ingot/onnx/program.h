#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ingot/onnx/op.h"

namespace ingot::onnx {

/// What a run of a graph executes: its nodes, of which some are folded into constants and some are made one.
struct Program {
  std::vector<Node> nodes;
  std::map<std::string, Value> constants;           ///< beside the graph's initializers
  std::vector<std::vector<std::string>> last_uses;  ///< values that node i is the last to read
};

/// The nodes of a graph while they become a program. Passes may exchange, add and remove nodes as long as
/// every value that is left keeps its name and its bits, up to the rounding of sums.
class Draft {
 public:
  Draft(std::vector<Node> nodes, const std::map<std::string, Value>& initializers,
        std::set<std::string> outputs, int opset);

  std::vector<Node> nodes;
  std::map<std::string, Value> constants;

  int opset() const { return opset_; }
  /// An initializer, or a constant of the program; null for what a node makes.
  const Value* constant(const std::string& name) const;
  /// Its tensor where it is a plain one of this dtype and rank; null otherwise.
  const Tensor* constant(const std::string& name, DType dtype, int rank) const;
  bool is_output(const std::string& name) const { return outputs_.contains(name); }
  /// Whether something else than the inputs of nodes reads it: an output, or what a graph inside a node
  /// reads.
  bool is_kept(const std::string& name) const { return kept_.contains(name); }

  /// Which node makes a value, and how often values are read. For the nodes as they are now.
  struct Links {
    std::map<std::string, std::size_t> maker;
    std::map<std::string, std::vector<std::size_t>> readers;
  };
  Links links() const;
  /// The name, or one like it where a value of the file is called so. Taken from then on.
  std::string unused_name(std::string name);
  /// The one node that reads a value; null where it is kept, or several do.
  const Node* sole_reader(const Links& links, const std::string& name) const;
  /// Removes nodes whose op a pass has cleared.
  void sweep();

 private:
  const std::map<std::string, Value>& initializers_;
  std::set<std::string> outputs_, kept_, names_;
  int opset_;
};

/// Whether passes may look into a node: it is one of the file's, of ONNX' own operators, and has inputs and
/// one output, which has a name. A stranger's graph has others.
bool is_usual(const Node& node);
/// A name among a node's inputs; "" where there are not so many.
const std::string& input_of(const Node& node, std::size_t i);

/// DequantizeLinear, Conv and QuantizeLinear as QLinearConv, where that runs in whole numbers, and an Add
/// between them as kQuantizedAdd.
void fuse_quantized(Draft& draft);
/// The codes of the sum of two values by theirs. Inputs: both, then scale and zero point, one each, of both
/// and of the sum.
extern const OpRow kQuantizedAdd;
/// Whether a QLinearConv, of constant weights, scales and zero points, is one for images in blocks.
bool runs_in_whole_numbers(const Draft& draft, const Node& node);
/// Runs nodes whose inputs are all constant, where the results stay small.
void fold_constants(Draft& draft, const Texts& texts);
/// MatMul, Softmax and MatMul, and what torch's exporter puts between them, as one attention.
void fuse_attention(Draft& draft);
/// MatMul with a constant matrix and the Add of a constant vector behind it as one.
void fuse_bias(Draft& draft);
/// Inputs: x, the matrix [in, out] and the bias [out], which may be left out; the matrix in tiles, likewise.
extern const OpRow kLinear;
/// Constant matrices of MatMul, Gemm and recurrent layers in tiles, where the processor multiplies these
/// faster.
void prepack_weights(Draft& draft);
/// RNN, GRU or LSTM with the tiles of its weights and its recurrent weights; null for another operator.
const OpRow* prepacked_recurrent(std::string_view op);
/// The first input of tiles: behind all that any of these operators takes and that messages list.
inline constexpr std::size_t kFirstTiles = 8;
/// Convolutions with constant weights, and what lies between them, on images in blocks of channels.
void lay_out_in_blocks(Draft& draft);

}  // namespace ingot::onnx

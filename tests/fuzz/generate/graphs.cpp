#include <bit>
#include <cstring>

#include "tests/fuzz/generate/source.h"

#include "ingot/onnx/op.h"

// ONNX graphs of every operator, whose shapes, attributes and inputs do not fit, in the wire format of
// protobuf.

namespace ingot::test {
namespace {

class Message {
 public:
  Message& number(std::uint32_t field, std::int64_t value) {
    varint(field << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& real(std::uint32_t field, float value) {
    varint(field << 3 | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    bytes_.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    return *this;
  }
  Message& bytes(std::uint32_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(std::uint32_t field, const Message& value) { return bytes(field, value.bytes_); }
  const std::string& text() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value > 127; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

constexpr std::array<std::string_view, 40> kAttributes{"axis",
                                                       "axes",
                                                       "kernel_shape",
                                                       "pads",
                                                       "strides",
                                                       "dilations",
                                                       "group",
                                                       "to",
                                                       "perm",
                                                       "blocksize",
                                                       "block_size",
                                                       "num_outputs",
                                                       "keepdims",
                                                       "output_shape",
                                                       "shape",
                                                       "size",
                                                       "k",
                                                       "exclusive",
                                                       "num_heads",
                                                       "q_num_heads",
                                                       "kv_num_heads",
                                                       "dtype",
                                                       "p",
                                                       "batch_dims",
                                                       "split",
                                                       "sample_size",
                                                       "output_height",
                                                       "output_width",
                                                       "time_axis",
                                                       "batch_axis",
                                                       "hidden_size",
                                                       "num_groups",
                                                       "offset_group",
                                                       "fmod",
                                                       "rotary_embedding_dim",
                                                       "inverse",
                                                       "onesided",
                                                       "value_ints",
                                                       "ends",
                                                       "starts"};

/// Elements of a type, with shapes of up to eight axes; now and then it says more than it holds.
Message tensor(Source& source, const std::string& name) {
  static constexpr std::array<std::int64_t, 9> kTypes{1, 1, 1, 7, 7, 9, 2, 4, 8};
  static constexpr std::array<std::size_t, 9> kBytes{4, 4, 4, 8, 8, 1, 1, 2, 0};
  const std::size_t which = source.below(kTypes.size());
  Message result;
  std::size_t count = 1;
  const std::size_t rank = kTypes[which] == 7 ? source.below(2) : source.below(source.one_in(20) ? 9 : 5);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t dim = source.below(5);
    result.number(1, source.one_in(60) ? source.integer() : static_cast<std::int64_t>(dim));
    count *= dim;
  }
  result.number(2, kTypes[which]).bytes(8, name);
  if (kTypes[which] == 8) {
    for (; count > 0; --count) result.bytes(6, source.text());
    return result;
  }
  std::string raw(count * kBytes[which], '\1');
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t value = source.integer();
    const auto real =
        static_cast<float>(source.one_in(8) ? value : static_cast<std::int64_t>(source.below(5)));
    if (kBytes[which] == 8) std::memcpy(raw.data() + i * 8, &value, 8);
    if (kBytes[which] == 4) std::memcpy(raw.data() + i * 4, &real, 4);
    if (kBytes[which] == 2) std::memcpy(raw.data() + i * 2, &value, 2);
  }
  return result.bytes(9, raw);
}

Message attribute(Source& source) {
  Message result;
  result.bytes(1, source.one_in(12) ? "scale" : source.of(kAttributes));
  switch (source.below(4)) {
    case 0:
      return result.number(3, source.integer()).number(20, 2);
    case 1:
      return result.real(2, static_cast<float>(source.integer())).number(20, 1);
    default:
      for (std::size_t n = source.below(6); n > 0; --n) result.number(8, source.integer());
      return result.number(3, source.integer()).number(20, 7);
  }
}

Message text_attribute(Source& source) {
  Message result;
  result.bytes(
      1, source.one_of({"mode", "auto_pad", "direction", "equation", "reduction", "pattern", "padding_mode",
                        "coordinate_transformation_mode", "update_rule", "delimiter"}));
  return result
      .bytes(4, source.one_of({"linear", "cubic", "SAME_UPPER", "bidirectional", "ij,jk->ik", "...i,i->...",
                               "add", "(a*)*b", "reflect", "circular", "tf_crop_and_resize", "wrap", "",
                               "LEFT"}))
      .number(20, 3);
}

}  // namespace

std::string hostile_graph(Source& source) {
  static const std::vector<std::string_view> kOperators = onnx::op_names();
  Message graph;
  std::vector<std::string> values;
  for (std::size_t n = 1 + source.below(6); n > 0; --n) {
    values.push_back("t" + std::to_string(values.size()));
    graph.message(5, tensor(source, values.back()));
  }
  const std::size_t nodes = 1 + source.below(3);
  for (std::size_t n = 0; n < nodes; ++n) {
    Message node;
    for (std::size_t i = source.below(6) + (source.one_in(10) ? 0 : 1); i > 0; --i)
      node.bytes(1, source.one_in(15) ? std::string() : values[source.below(values.size())]);
    std::string_view op = source.of(kOperators);
    if (const std::size_t dot = op.rfind('.'); dot != op.npos) {
      node.bytes(7, op.substr(0, dot));
      op.remove_prefix(dot + 1);
    }
    node.bytes(4, op);
    for (std::size_t i = source.below(5); i > 0; --i) node.message(5, attribute(source));
    if (source.one_in(3)) node.message(5, text_attribute(source));
    const std::string made = "y" + std::to_string(n);
    node.bytes(2, made);
    graph.message(1, node);
    values.push_back(made);
  }
  graph.message(12, Message().bytes(1, values.back()));
  const auto opset =
      static_cast<std::int64_t>(source.one_in(3) ? 1 + source.below(28) : 20 + source.below(6));
  return Message().number(1, 10).message(7, graph).message(8, Message().number(2, opset)).text();
}

}  // namespace ingot::test

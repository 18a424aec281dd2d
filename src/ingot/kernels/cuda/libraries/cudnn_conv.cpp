#include <cudnn_frontend.h>

#include "ingot/core/tensor.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/cuda/libraries/cudnn.h"

// Convolutions through cuDNN, of any layout, dtype and number of groups that it has an engine for.
namespace ingot::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;

/// An image of either layout in cuDNN's order: sample, channel, row, column.
DnnOperand image(const View& view, bool channels_last) {
  const std::array<int, 4> axes = channels_last ? std::array{0, 3, 1, 2} : std::array{0, 1, 2, 3};
  DnnOperand operand{.data = view.data, .dtype = view.dtype};
  for (std::size_t i = 0; i < 4; ++i) {
    operand.sizes[i] = view.dim(axes[i]);
    operand.strides[i] = view.stride(axes[i]);
  }
  return operand;
}

DnnOperand filters(const View& weight) { return image(weight, false); }

/// [O], for every position of an image.
DnnOperand of_channels(const View& bias) {
  if (!bias) return {};
  return {bias.data, bias.dtype, {1, bias.dim(0), 1, 1}, {bias.dim(0), 1, 1, 1}};
}

/// What the three passes have in common.
class ConvOperation : public DnnOperation {
 protected:
  ConvOperation(const char* name, std::vector<DnnOperand> operands, const ConvGeometry& g)
      : DnnOperation(name, std::move(operands),
                     {g.stride[0], g.stride[1], g.padding[0], g.padding[1], g.dilation[0], g.dilation[1]}),
        geometry_(g) {}
  template <class Attributes>
  Attributes attributes() const {
    const ConvGeometry& g = geometry_;
    Attributes made;
    made.set_stride({g.stride[0], g.stride[1]})
        .set_padding({g.padding[0], g.padding[1]})
        .set_dilation({g.dilation[0], g.dilation[1]});
    return made;
  }

 private:
  ConvGeometry geometry_;
};

class ConvForward final : public ConvOperation {
 public:
  explicit ConvForward(const ConvArgs& args)
      : ConvOperation("conv",
                      {image(args.x, args.geometry.channels_last), filters(args.weight),
                       of_channels(args.bias), image(args.y, args.geometry.channels_last)},
                      args.geometry) {}

  void describe(DnnGraph& graph) const override {
    DnnTensor y =
        graph.conv_fprop(input(graph, 0), input(graph, 1), attributes<fe::graph::Conv_fprop_attributes>());
    if (has(2)) {
      fe::graph::Pointwise_attributes sum;
      sum.set_mode(fe::PointwiseMode_t::ADD);
      y = graph.pointwise(y, input(graph, 2), sum);
    }
    output(y, 3);
  }
};

class ConvBackwardData final : public ConvOperation {
 public:
  explicit ConvBackwardData(const ConvBackwardDataArgs& args)
      : ConvOperation("conv_backward_data",
                      {image(args.dy, args.geometry.channels_last), filters(args.weight),
                       image(args.dx, args.geometry.channels_last)},
                      args.geometry) {}

  void describe(DnnGraph& graph) const override {
    output(graph.conv_dgrad(input(graph, 0), input(graph, 1), attributes<fe::graph::Conv_dgrad_attributes>()),
           2);
  }
};

class ConvBackwardWeight final : public ConvOperation {
 public:
  explicit ConvBackwardWeight(const ConvBackwardWeightArgs& args)
      : ConvOperation("conv_backward_weight",
                      {image(args.dy, args.geometry.channels_last),
                       image(args.x, args.geometry.channels_last), filters(args.dweight)},
                      args.geometry) {}

  void describe(DnnGraph& graph) const override {
    output(graph.conv_wgrad(input(graph, 0), input(graph, 1), attributes<fe::graph::Conv_wgrad_attributes>()),
           2);
  }
};

/// Where a result goes that is written or added: cuDNN only writes.
class Destination {
 public:
  Destination(const View& to, bool accumulate) : to_(to) {
    if (accumulate) passing_ = Tensor::empty({to.numel()}, to.dtype, to.device);
  }
  View view() const {
    View view = to_;
    if (passing_.defined()) view.data = passing_.view().data;
    return view;
  }
  void add(Stream stream) const {
    if (passing_.defined()) launch(copy, stream, {.x = view(), .y = to_, .accumulate = true});
  }

 private:
  View to_;
  Tensor passing_;
};

bool fits(std::initializer_list<View> tensors) {
  const DType dtype = tensors.begin()->dtype;
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) return false;
  for (const View& view : tensors)
    if (view.dtype != dtype || view.numel() == 0 || reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0)
      return false;
  return true;
}

void run_backward_data(const ConvBackwardDataArgs& args, Stream stream) {
  const StreamGuard guard(stream);
  const Destination dx(args.dx, args.accumulate);
  ConvBackwardDataArgs written = args;
  written.dx = dx.view();
  dnn_run(written, stream);
  dx.add(stream);
}

void run_backward_weight(const ConvBackwardWeightArgs& args, Stream stream) {
  const StreamGuard guard(stream);
  const Destination dweight(args.dweight, args.accumulate_dweight);
  ConvBackwardWeightArgs written = args;
  written.dweight = dweight.view();
  dnn_run(written, stream);
  dweight.add(stream);
  if (!args.dbias) return;
  ConvBackwardWeightArgs bias = args;  // of which our own kernels see to the rest
  bias.dweight = {};
  launch(conv_backward_weight, stream, bias);
}

}  // namespace

std::unique_ptr<DnnOperation> dnn_operation(const ConvArgs& args) {
  if (!fits({args.x, args.weight, args.y}) || (args.bias && !fits({args.x, args.bias}))) return nullptr;
  return std::make_unique<ConvForward>(args);
}

std::unique_ptr<DnnOperation> dnn_operation(const ConvBackwardDataArgs& args) {
  if (!fits({args.dx, args.weight, args.dy})) return nullptr;
  return std::make_unique<ConvBackwardData>(args);
}

std::unique_ptr<DnnOperation> dnn_operation(const ConvBackwardWeightArgs& args) {
  if (!args.dweight || !fits({args.x, args.dweight, args.dy})) return nullptr;
  return std::make_unique<ConvBackwardWeight>(args);
}

void register_cudnn_conv() {
  conv.add(DeviceType::cuda,
           {"cudnn", ImplKind::library, [](const ConvArgs& args) { return dnn_takes(args, args.x); },
            dnn_run<ConvArgs>});
  conv_backward_data.add(
      DeviceType::cuda,
      {"cudnn", ImplKind::library, [](const ConvBackwardDataArgs& args) { return dnn_takes(args, args.dx); },
       run_backward_data});
  conv_backward_weight.add(
      DeviceType::cuda,
      {"cudnn", ImplKind::library, [](const ConvBackwardWeightArgs& args) { return dnn_takes(args, args.x); },
       run_backward_weight});
}

}  // namespace ingot::kernels::cuda

#include "ingot/kernels/pointwise.h"

#include <vector>

#include "ingot/kernels/copy.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

using Kind = PointwiseStep::Kind;

constexpr std::int64_t kBlock = 1024;  // elements that go through all steps together

View part(const View& x, std::int64_t begin, std::int64_t count) {
  View view;
  view.data = x.as<char>() + begin * static_cast<std::int64_t>(byte_size(x.dtype));
  view.rank = 1;
  view.shape = {count};
  view.strides = {1};
  view.dtype = x.dtype;
  view.device = x.device;
  return view;
}

void run_step(const PointwiseStep& s, const std::vector<View>& values, const View& y, bool accumulate,
              Stream stream) {
  const auto value = [&](int number) { return values[static_cast<std::size_t>(number)]; };
  switch (s.kind) {
    case Kind::unary:
      return launch(unary, stream,
                    {.x = value(s.a),
                     .y = y,
                     .op = s.unary,
                     .alpha = s.alpha,
                     .beta = s.beta,
                     .accumulate = accumulate});
    case Kind::unary_backward:
      return launch(unary_backward, stream,
                    {.saved = s.unary == UnaryOp::scale ? View{} : value(s.a),
                     .dy = value(s.b),
                     .dx = y,
                     .op = s.unary,
                     .alpha = s.alpha,
                     .beta = s.beta,
                     .accumulate = accumulate});
    case Kind::binary:
      return launch(binary, stream,
                    {.a = value(s.a), .b = value(s.b), .y = y, .op = s.binary, .accumulate = accumulate});
    case Kind::binary_backward:
      return launch(binary_backward, stream,
                    {.a = value(s.a),
                     .b = value(s.b),
                     .dy = value(s.c),
                     .dx = y,
                     .op = s.binary,
                     .accumulate = accumulate});
  }
}

// One kernel after the other, on blocks: what the contract says.
void pointwise_in_steps(const PointwiseArgs& args, Stream stream) {
  const std::int64_t total = args.y.numel();
  const std::size_t block_bytes = static_cast<std::size_t>(kBlock) * byte_size(args.y.dtype);
  std::vector<std::byte> memory(block_bytes * args.steps.size());
  for (std::int64_t begin = 0; begin < total; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, total - begin);
    std::vector<View> values;
    for (const View& input : args.inputs) values.push_back(part(input, begin, count));
    for (std::size_t i = 0; i < args.steps.size(); ++i) {
      const bool last = i + 1 == args.steps.size();
      const PointwiseStep& step = args.steps[i];
      View y = part(args.y, begin, count);
      if (!last || step.sum >= 0) y.data = memory.data() + i * block_bytes;
      if (step.sum >= 0) launch(copy, stream, {.x = values[static_cast<std::size_t>(step.sum)], .y = y});
      run_step(step, values, y, step.sum >= 0 || (last && args.accumulate), stream);
      if (last && step.sum >= 0)
        launch(copy, stream, {.x = y, .y = part(args.y, begin, count), .accumulate = args.accumulate});
      values.push_back(y);
    }
  }
}

}  // namespace

void register_pointwise_reference() {
  pointwise.add(DeviceType::cpu, {"in steps", ImplKind::reference, nullptr, pointwise_in_steps});
}

}  // namespace ingot::kernels::cpu

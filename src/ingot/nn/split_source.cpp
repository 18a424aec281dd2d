#include "ingot/nn/split_source.h"

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

namespace ingot {
Tensor SplitSource::provide(const ParamRequest& request) {
  const ParamPart part = split_.part(request.name, request.shape);
  ParamRequest whole = request;
  whole.shape = part.whole;
  const Tensor value = whole_.provide(whole);
  const NoGrad no_grad;
  const MemoryTagScope tag(MemoryTag::parameter);
  if (part.is_zero) return Tensor::zeros(value.shape(), value.dtype(), value.device());
  if (part.axis < 0) return value;
  // In memory of its own, so that what is left can go.
  return clone(narrow(value, part.axis, part.begin, part.end - part.begin)).detach();
}

quant::PackedPtr SplitSource::provide_quantized(const std::string& name, const Shape& shape) {
  const ParamPart part = split_.part(name, shape);
  return whole_.provide_quantized_part(name, part.whole, {part.axis, part.begin, part.end});
}

std::vector<quant::PackedPtr> SplitSource::provide_quantized_stack(const std::string& name,
                                                                   const Shape& shape) {
  const ParamPart part = split_.part(name, shape);
  const int axis = part.axis < 0 ? -1 : part.axis - 1;  // of each matrix
  return whole_.provide_quantized_stack_part(name, part.whole, {axis, part.begin, part.end});
}

}  // namespace ingot

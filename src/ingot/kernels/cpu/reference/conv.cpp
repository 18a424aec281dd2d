#include "ingot/kernels/conv.h"

#include "ingot/kernels/cpu/numeric.h"
#include "ingot/kernels/cpu/register.h"

namespace ingot::kernels::cpu {
namespace {

/// Sizes of an image tensor and where its elements are, in either layout.
struct Image {
  std::int64_t n, c, h, w;
  bool last;
  Image(const View& x, bool channels_last)
      : n(x.dim(0)),
        c(x.dim(channels_last ? 3 : 1)),
        h(x.dim(channels_last ? 1 : 2)),
        w(x.dim(channels_last ? 2 : 3)),
        last(channels_last) {}
  std::int64_t at(std::int64_t in, std::int64_t ic, std::int64_t ih, std::int64_t iw) const {
    return last ? ((in * h + ih) * w + iw) * c + ic : ((in * c + ic) * h + ih) * w + iw;
  }
};

bool inside(std::int64_t i, std::int64_t n) { return i >= 0 && i < n; }

void forward(const ConvArgs& args, Stream) {
  dispatch_float(args.x.dtype, "conv", [&]<class T>() {
    using Acc = Accumulator<T>;
    const ConvGeometry& g = args.geometry;
    const Image x(args.x, g.channels_last), y(args.y, g.channels_last);
    const std::int64_t kh = args.weight.dim(2), kw = args.weight.dim(3), cg = x.c / g.groups,
                       og = y.c / g.groups;
    for (std::int64_t i = 0; i < y.n * y.c * y.h * y.w; ++i) {
      const std::int64_t n = i / (y.c * y.h * y.w), o = i / (y.h * y.w) % y.c, oh = i / y.w % y.h,
                         ow = i % y.w;
      Acc sum = args.bias ? load(args.bias.as<T>() + o) : Acc{0};
      for (std::int64_t k = 0; k < cg * kh * kw; ++k) {
        const std::int64_t c = k / (kh * kw), a = k / kw % kh, b = k % kw;
        const std::int64_t ih = oh * g.stride[0] - g.padding[0] + a * g.dilation[0];
        const std::int64_t iw = ow * g.stride[1] - g.padding[1] + b * g.dilation[1];
        if (!inside(ih, x.h) || !inside(iw, x.w)) continue;
        sum += load(args.x.as<T>() + x.at(n, o / og * cg + c, ih, iw)) *
               load(args.weight.as<T>() + o * cg * kh * kw + k);
      }
      store(args.y.as<T>() + y.at(n, o, oh, ow), sum);
    }
  });
}

// dx[ih, iw] collects every output that read it: those with oh·stride = ih + padding − a·dilation.
void backward_data(const ConvBackwardDataArgs& args, Stream) {
  dispatch_float(args.dx.dtype, "conv_backward_data", [&]<class T>() {
    using Acc = Accumulator<T>;
    const ConvGeometry& g = args.geometry;
    const Image x(args.dx, g.channels_last), y(args.dy, g.channels_last);
    const std::int64_t kh = args.weight.dim(2), kw = args.weight.dim(3), cg = x.c / g.groups,
                       og = y.c / g.groups;
    for (std::int64_t i = 0; i < x.n * x.c * x.h * x.w; ++i) {
      const std::int64_t n = i / (x.c * x.h * x.w), c = i / (x.h * x.w) % x.c, ih = i / x.w % x.h,
                         iw = i % x.w;
      Acc sum = 0;
      for (std::int64_t k = 0; k < og * kh * kw; ++k) {
        const std::int64_t o = c / cg * og + k / (kh * kw), a = k / kw % kh, b = k % kw;
        const std::int64_t h = ih + g.padding[0] - a * g.dilation[0],
                           w = iw + g.padding[1] - b * g.dilation[1];
        if (h % g.stride[0] != 0 || w % g.stride[1] != 0) continue;
        if (!inside(h / g.stride[0], y.h) || !inside(w / g.stride[1], y.w)) continue;
        sum += load(args.dy.as<T>() + y.at(n, o, h / g.stride[0], w / g.stride[1])) *
               load(args.weight.as<T>() + ((o * cg + c % cg) * kh + a) * kw + b);
      }
      store(args.dx.as<T>() + x.at(n, c, ih, iw), sum, args.accumulate);
    }
  });
}

void backward_weight(const ConvBackwardWeightArgs& args, Stream) {
  dispatch_float(args.x.dtype, "conv_backward_weight", [&]<class T>() {
    using Acc = Accumulator<T>;
    const ConvGeometry& g = args.geometry;
    const Image x(args.x, g.channels_last), y(args.dy, g.channels_last);
    const std::int64_t cg = x.c / g.groups, og = y.c / g.groups;
    for (std::int64_t i = 0; args.dweight && i < args.dweight.numel(); ++i) {
      const std::int64_t kh = args.dweight.dim(2), kw = args.dweight.dim(3);
      const std::int64_t o = i / (cg * kh * kw), c = o / og * cg + i / (kh * kw) % cg, a = i / kw % kh,
                         b = i % kw;
      Acc sum = 0;
      for (std::int64_t m = 0; m < y.n * y.h * y.w; ++m) {
        const std::int64_t n = m / (y.h * y.w), oh = m / y.w % y.h, ow = m % y.w;
        const std::int64_t ih = oh * g.stride[0] - g.padding[0] + a * g.dilation[0];
        const std::int64_t iw = ow * g.stride[1] - g.padding[1] + b * g.dilation[1];
        if (!inside(ih, x.h) || !inside(iw, x.w)) continue;
        sum += load(args.dy.as<T>() + y.at(n, o, oh, ow)) * load(args.x.as<T>() + x.at(n, c, ih, iw));
      }
      store(args.dweight.as<T>() + i, sum, args.accumulate_dweight);
    }
    for (std::int64_t o = 0; args.dbias && o < y.c; ++o) {
      Acc sum = 0;
      for (std::int64_t m = 0; m < y.n * y.h * y.w; ++m) {
        sum += load(args.dy.as<T>() + y.at(m / (y.h * y.w), o, m / y.w % y.h, m % y.w));
      }
      store(args.dbias.as<T>() + o, sum, args.accumulate_dbias);
    }
  });
}

void packed_forward(const ConvPackedArgs& args, Stream) {
  dispatch_float(args.x.dtype, "conv_packed", [&]<class T>() {
    using Acc = Accumulator<T>;
    const std::int64_t width = args.x.dim(1), c = args.x.dim(2), depth = args.packed.dim(1);
    const std::int64_t out_width = args.y.dim(1), outputs = args.y.dim(2);
    for (std::int64_t i = 0; i < args.y.numel(); ++i) {
      const std::int64_t n = i / (out_width * outputs), w = i / outputs % out_width, o = i % outputs;
      Acc sum = args.bias ? load(args.bias.as<T>() + o) : Acc{0};
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::int64_t at = w + k / c - args.padding;
        if (!inside(at, width)) continue;
        sum += load(args.x.as<T>() + (n * width + at) * c + k % c) *
               load(args.packed.as<T>() + (o / kConvPanel * depth + k) * kConvPanel + o % kConvPanel);
      }
      store(args.y.as<T>() + i, sum);
    }
  });
}

void pack(const ConvPackArgs& args, Stream) {
  dispatch_float(args.weight.dtype, "conv_pack", [&]<class T>() {
    const std::int64_t outputs = args.weight.dim(0), c = args.weight.dim(1), taps = args.weight.dim(2);
    for (std::int64_t i = 0; i < args.packed.numel(); ++i) {
      const std::int64_t o = i / (c * taps * kConvPanel) * kConvPanel + i % kConvPanel;
      const std::int64_t k = i / kConvPanel % (c * taps);
      args.packed.as<T>()[i] = o < outputs ? args.weight.as<T>()[(o * c + k % c) * taps + k / c] : T(0.0F);
    }
  });
}

}  // namespace

void register_conv_reference() {
  conv.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, forward});
  conv_backward_data.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, backward_data});
  conv_backward_weight.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, backward_weight});
  conv_packed.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, packed_forward});
  conv_pack.add(DeviceType::cpu, {"reference", ImplKind::reference, nullptr, pack});
}

}  // namespace ingot::kernels::cpu

// Recurrences over positions, Fourier transforms and complex numbers, experts, whole numbers with a scale,
// and recomputation.
#include <memory>

#include "bindings.h"
#include "held.h"

#include "ingot/ops/affine_quantize.h"
#include "ingot/ops/causal_conv.h"
#include "ingot/ops/checkpoint.h"
#include "ingot/ops/complex.h"
#include "ingot/ops/delta_rule.h"
#include "ingot/ops/fft.h"
#include "ingot/ops/grouped_linear.h"
#include "ingot/ops/lstm.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/moving_average.h"
#include "ingot/ops/resample.h"
#include "ingot/ops/selective_scan.h"
#include "ingot/ops/weighted_roll.h"

namespace ingot::python {
namespace {

void bind_spectra(nb::module_& m) {
  m.def("rfft", rfft, "x"_a, "dim"_a = -1, "bins"_a = 0, ReleaseGil(),
        "Fourier transform of a real axis of n values, with NumPy's signs: [...] -> [2, ...], real parts and "
        "imaginary parts, n // 2 + 1 frequencies or the first ``bins`` of them.");
  m.def("irfft", irfft, "z"_a, "n"_a, "dim"_a = -1, ReleaseGil(),
        "The real series of n values that has the spectrum z: [2, ...] -> [...]. ``dim`` counts the result's "
        "axes.");
  m.def("complex_multiply", complex_multiply, "a"_a, "b"_a, "conjugate_b"_a = false, ReleaseGil(),
        "a · b, or a · conj(b), of complex tensors [2, ...] of one shape: real parts, then imaginary ones.");
  m.def("complex_matmul", complex_matmul, "a"_a, "b"_a, ReleaseGil(),
        "Complex matmul: [2, ..., m, k] and [2, ..., k, n] -> [2, ..., m, n].");
  m.def("complex_abs", complex_abs, "z"_a, ReleaseGil(), "|z| of a complex tensor: [2, ...] -> [...].");
  m.def("complex_tanh", complex_tanh, "z"_a, ReleaseGil(), "tanh of a complex tensor [2, ...].");
}

void bind_series(nb::module_& m) {
  m.def("moving_average", moving_average, "x"_a, "window"_a, "dim"_a = -1, ReleaseGil(),
        "The mean of the ``window`` values around each position of an axis; the ends are repeated beyond.");
  m.def("weighted_roll", weighted_roll, "x"_a, "delays"_a, "weights"_a, ReleaseGil(),
        "y[b, t] = Σ_i weights[b, i] · x[b, (t + delays[b, i]) mod L]. x: [B, L, D]; delays: int64 [B, K]; "
        "weights: [B, K].");
  m.def(
      "resample",
      [](const Tensor& x, int dim, std::int64_t positions, const std::vector<std::int32_t>& indices,
         const std::vector<double>& weights) {
        const std::int64_t taps = positions == 0 ? 0 : std::ssize(indices) / positions;
        return resample(x, dim,
                        {.positions = positions, .taps = taps, .indices = indices, .weights = weights});
      },
      "x"_a, "dim"_a, "positions"_a, "indices"_a, "weights"_a, ReleaseGil(),
      "An axis at other positions: position i is the sum over taps t of weights[t · positions + i] times x "
      "at "
      "indices[t · positions + i]. Interpolation and short filters are such.");
}

void bind_recurrences(nb::module_& m) {
  m.def(
      "causal_conv",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, const OptionalTensor& past,
         const OptionalTensor& starts) {
        return causal_conv(x, weight, or_undefined(bias),
                           {.past = or_undefined(past), .starts = or_undefined(starts)});
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "past"_a = nb::none(), "starts"_a = nb::none(), ReleaseGil(),
      "Depthwise causal convolution. x: [B, T, C]; weight: [C, K]; bias: [C]; past: [B, K - 1, C], the steps "
      "before; starts: int32 [B, T], the first step of each step's document.");
  m.def(
      "selective_scan",
      [](const Tensor& x, const Tensor& decay, const Tensor& keys, const Tensor& queries,
         const OptionalTensor& starts, const OptionalTensor& state) {
        return selective_scan({x, decay, keys, queries, or_undefined(starts)}, or_undefined(state));
      },
      "x"_a, "decay"_a, "keys"_a, "queries"_a, "starts"_a = nb::none(), "state"_a = nb::none(), ReleaseGil(),
      "Mamba 2's recurrence: S[t] = exp(decay[t]) · S[t - 1] + x[t] keys[t]ᵀ, y[t] = S[t] queries[t]. x: [B, "
      "T, H, P]; decay: [B, T, H]; keys, queries: [B, T, G, N]; state: float32 [B, H, P, N], which it "
      "changes.");
  m.def(
      "delta_rule",
      [](const Tensor& x, const Tensor& decay, const Tensor& beta, const Tensor& keys, const Tensor& queries,
         const OptionalTensor& starts, const OptionalTensor& state) {
        return delta_rule({x, decay, beta, keys, queries, or_undefined(starts)}, or_undefined(state));
      },
      "x"_a, "decay"_a, "beta"_a, "keys"_a, "queries"_a, "starts"_a = nb::none(), "state"_a = nb::none(),
      ReleaseGil(),
      "The gated delta rule: with S' = exp(decay[t]) · S[t - 1], S[t] = S' + beta[t] (x[t] - S' keys[t]) "
      "keys[t]ᵀ, y[t] = S[t] queries[t]. Shapes are those of ``selective_scan``; beta: [B, T, H].");
  m.def(
      "lstm_cell",
      [](const Tensor& gates, const Tensor& c) {
        const LstmState state = lstm_cell(gates, c);
        return std::pair(state.h, state.c);
      },
      "gates"_a, "c"_a, ReleaseGil(),
      "(h, c) after a step of an LSTM. gates: float32 [N, 4H] before their activations, in the order input, "
      "output, forget, cell; c: [N, H]. No gradient.");
}

void bind_experts(nb::module_& m) {
  m.def("grouped_linear", grouped_linear, "x"_a, "weight"_a, "offsets"_a, ReleaseGil(),
        "Rows [offsets[g], offsets[g + 1]) of x times weight[g].T. x: [rows, in]; weight: [groups, out, in]; "
        "offsets: int64 [groups + 1] -> [rows, out].");
  m.def(
      "route_experts",
      [](const Tensor& experts, std::int64_t expert_count) {
        const ExpertRouting made = route_experts(experts, expert_count);
        return std::array{made.offsets, made.tokens, made.experts, made.positions};
      },
      "experts"_a, "num_experts"_a, ReleaseGil(),
      "[offsets, tokens, experts, positions] of the (token, choice) pairs in the order of their experts, for "
      "``grouped_linear``. experts: int64 [tokens, choices].");
  m.def(
      "swiglu",
      [](const Tensor& x, const Tensor& gate, const Tensor& up) {
        return swiglu(x, {gate, {}}, {up, {}});
      },
      "x"_a, "gate"_a, "up"_a, ReleaseGil(),
      "silu(x @ gate.T) · (x @ up.T). x: [..., in]; gate, up: [out, in] -> [..., out].");
}

void bind_whole_numbers(nb::module_& m) {
  m.def(
      "affine_quantize",
      [](const Tensor& x, const Tensor& scale, const OptionalTensor& zero, nb::handle dtype, int dim) {
        const DType codes = to_dtype(dtype);
        const ReleasedGil release;
        return affine_quantize(x, scale, or_undefined(zero), codes, dim);
      },
      "x"_a, "scale"_a, "zero"_a.none(), "dtype"_a, "dim"_a = 0,
      "round(x / scale) + zero, limited to int8 or uint8. scale: float32 [channels] of an axis, or [1]. No "
      "gradient.");
  m.def(
      "affine_dequantize",
      [](const Tensor& q, const Tensor& scale, const OptionalTensor& zero, nb::handle dtype, int dim) {
        const DType type = to_dtype(dtype);
        const ReleasedGil release;
        return affine_dequantize(q, scale, or_undefined(zero), type, dim);
      },
      "q"_a, "scale"_a, "zero"_a.none(), "dtype"_a, "dim"_a = 0,
      "(q - zero) · scale of int8 or uint8. scale: float32 [channels] of an axis, or [1]. No gradient.");
}

// What a backward pass calls again, perhaps in another thread's turn.
Tensor recomputed(const nb::object& function, const Tensor& x) {
  const auto held = std::make_shared<Held>(function);
  const ReleasedGil release;
  return checkpoint(
      [held](const Tensor& input) -> Tensor {
        const AcquiredGil acquire;
        try {
          const nb::object made = held->get()(input);
          if (nb::isinstance<Tensor>(made)) return nb::cast<Tensor>(made);
        } catch (const nb::python_error& error) {
          throw HeldError(error);
        }
        throw nb::type_error("checkpoint: the function has to return a Tensor");
      },
      x);
}

}  // namespace

void bind_sequence_ops(nb::module_& module) {
  bind_spectra(module);
  bind_series(module);
  bind_recurrences(module);
  bind_experts(module);
  bind_whole_numbers(module);
  module.def(
      "checkpoint", recomputed, "function"_a, "x"_a,
      "function(x) without keeping what it computes inside: the backward pass recomputes it. The bits are "
      "those of a plain call, dropout included.");
}

}  // namespace ingot::python

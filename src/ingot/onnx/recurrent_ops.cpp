#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/onnx/program.h"
#include "ingot/onnx/weight_matrix.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/lstm.h"
#include "ingot/ops/view.h"

// RNN, GRU and LSTM. All inputs of a direction are multiplied at once; what remains of a step is its matmul
// with the state.

namespace ingot::onnx {
namespace {

using Activation = Tensor (*)(const Tensor&);

Tensor softsign(const Tensor& x) { return div(x, scale(abs(x), 1, 1)); }

Activation activation(const OpCall& call, const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, Activation>, 5> kKnown{
      {{"Sigmoid", sigmoid}, {"Tanh", tanh}, {"Relu", relu}, {"Softplus", softplus}, {"Softsign", softsign}}};
  for (const auto& [known, f] : kKnown) {
    if (name == known) return f;
  }
  call.refuse("activation " + name);
}

/// One direction's weights; the gates stand one after another on their first axis.
struct Cell {
  std::int64_t hidden = 0;
  WeightMatrix weight, recurrent;  ///< [gates * hidden, inputs], [gates * hidden, hidden]
  Tensor bias, recurrent_bias;     ///< [gates * hidden]; undefined: zero, or the first has the sum of both
  Tensor peepholes;                ///< [3 * hidden]: input, output, forget; undefined: zero
  std::vector<Activation> activations;
  double clip = 0;           ///< 0: none
  bool reset_after = false;  ///< GRU's linear_before_reset
  bool coupled = false;      ///< LSTM's input_forget: it forgets what the input gate does not let in

  /// An LSTM with its usual activations and nothing besides.
  bool is_usual_lstm() const {
    const std::vector<Activation> usual{sigmoid, tanh, tanh};
    return activations == usual && !peepholes.defined() && clip == 0 && !coupled;
  }
  Tensor gate(const Tensor& all, std::int64_t i) const { return narrow(all, -1, i * hidden, hidden); }
  Tensor apply(std::size_t f, const Tensor& x) const {
    return activations[f](clip > 0 ? clamp(x, -clip, clip) : x);
  }
};

struct State {
  Tensor h, c;  ///< [batch, hidden]; c is LSTM's
};

using Step = State (*)(const Cell&, const Tensor& input, const State&);

/// What the inputs and the state give to all gates; the biases are in the input's part. One sequence adds its
/// part as a bias.
Tensor summed_gates(const Cell& cell, const Tensor& input, const Tensor& h) {
  if (input.dim(0) == 1) return cell.recurrent.apply(h, reshape(input, {input.dim(1)}));
  return add(input, cell.recurrent.apply(h));
}

State rnn_step(const Cell& cell, const Tensor& input, const State& s) {
  return {cell.apply(0, summed_gates(cell, input, s.h)), {}};
}

// Gates: update, reset, hidden.
State gru_step(const Cell& cell, const Tensor& input, const State& s) {
  const Tensor of_state = cell.recurrent.apply(s.h, cell.recurrent_bias);
  const Tensor update = cell.apply(0, add(cell.gate(input, 0), cell.gate(of_state, 0)));
  const Tensor reset = cell.apply(0, add(cell.gate(input, 1), cell.gate(of_state, 1)));
  Tensor candidate;
  if (cell.reset_after) {
    candidate = mul(reset, cell.gate(of_state, 2));
  } else {
    const Tensor bias = cell.recurrent_bias.defined() ? cell.gate(cell.recurrent_bias, 2) : Tensor();
    candidate = cell.recurrent.rows(2 * cell.hidden, cell.hidden).apply(mul(reset, s.h), bias);
  }
  candidate = cell.apply(1, add(cell.gate(input, 2), candidate));
  return {add(candidate, mul(update, sub(s.h, candidate))), {}};
}

// Gates: input, output, forget, cell.
State lstm_step(const Cell& cell, const Tensor& input, const State& s) {
  const Tensor gates = summed_gates(cell, input, s.h);
  if (cell.is_usual_lstm() && takes_lstm_cell(gates)) {
    LstmState next = lstm_cell(gates, s.c);
    return {std::move(next.h), std::move(next.c)};
  }
  const auto next = [&](const Tensor& own_forget, const Tensor& in) {
    const Tensor forget = cell.coupled ? scale(in, -1, 1) : own_forget;
    return add(mul(forget, s.c), mul(in, cell.apply(1, cell.gate(gates, 3))));
  };
  if (!cell.peepholes.defined()) {
    const Tensor open = cell.apply(0, narrow(gates, -1, 0, 3 * cell.hidden));
    const Tensor c = next(cell.gate(open, 2), cell.gate(open, 0));
    return {mul(cell.gate(open, 1), cell.activations[2](c)), c};
  }
  const auto peep = [&](std::int64_t i, const Tensor& c, std::int64_t peephole) {
    return cell.apply(0, add(cell.gate(gates, i), mul(cell.gate(cell.peepholes, peephole), c)));
  };
  const Tensor c = next(peep(2, s.c, 2), peep(0, s.c, 0));
  return {mul(peep(1, c, 1), cell.activations[2](c)), c};
}

struct Kind {
  std::int64_t gates;
  std::vector<std::string> activations;
  Step step;
  bool has_cell_state;
  bool adds_biases = true;    ///< of inputs and state; a GRU's reset gate may come between
  bool is_prepacked = false;  ///< the weights' tiles are behind the inputs
};

/// Steps of one direction. x: [sequence, batch, inputs]; `y` gets [batch, hidden] of each, zero where a text
/// is over.
State run_direction(const Kind& kind, const Cell& cell, const Tensor& x, State state, bool reverse,
                    const Tensor& lengths, std::vector<Tensor>& y) {
  const Tensor inputs = cell.weight.apply(x, cell.bias);
  const std::int64_t length = x.dim(0);
  y.resize(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = reverse ? length - 1 - i : i;
    State next = kind.step(cell, select(inputs, 0, t), state);
    Tensor& out = y[static_cast<std::size_t>(t)];
    if (!lengths.defined()) {
      out = next.h;
      state = std::move(next);
      continue;
    }
    const Tensor going =
        greater(lengths, Tensor::from(std::vector<std::int64_t>{t}, {}, x.device()));  // [batch, 1]
    out = where(going, next.h, Tensor::zeros(next.h.shape(), next.h.dtype(), x.device()));
    state.h = where(going, next.h, state.h);
    if (kind.has_cell_state) state.c = where(going, next.c, state.c);
  }
  return state;
}

Cell cell_of(const OpCall& call, const Kind& kind, std::int64_t direction, std::int64_t directions) {
  Cell cell;
  const auto part = [&](std::size_t i) {
    return call.has(i) ? contiguous(select(call.in(i), 0, direction)) : Tensor();
  };
  const Tensor weight = part(1), recurrent = part(2);
  cell.hidden = recurrent.dim(-1);
  const std::int64_t rows = kind.gates * cell.hidden;
  INGOT_CHECK(
      weight.rank() == 2 && recurrent.rank() == 2 && weight.dim(0) == rows && recurrent.dim(0) == rows,
      DimensionMismatch(fmt::format("{}: weights of {} and {} for {} gates of {}", call.where(),
                                    to_string(weight.shape()), to_string(recurrent.shape()), kind.gates,
                                    cell.hidden)));
  const auto tiles = [&](std::size_t i) {
    if (!kind.is_prepacked || !call.has(i)) return Tensor();
    const std::int64_t panels = rows / WeightMatrix::kTileRows;
    return narrow(call.in(i), 0, direction * panels, panels);
  };
  cell.weight = WeightMatrix(weight, tiles(kFirstTiles));
  cell.recurrent = WeightMatrix(recurrent, tiles(kFirstTiles + 1));
  if (const Tensor bias = part(3); bias.defined()) {
    INGOT_CHECK(bias.shape() == Shape({2 * rows}), DimensionMismatch(call.where() + ": size of the bias"));
    cell.bias = narrow(bias, 0, 0, rows);
    cell.recurrent_bias = narrow(bias, 0, rows, rows);
    if (kind.adds_biases) cell.bias = add(cell.bias, std::exchange(cell.recurrent_bias, {}));
  }
  if (kind.has_cell_state) cell.peepholes = part(7);
  cell.clip = call.number("clip", 0);
  cell.coupled = kind.has_cell_state && call.integer("input_forget", 0) != 0;
  cell.reset_after = call.integer("linear_before_reset", 0) != 0;
  const std::size_t count = kind.activations.size();
  std::vector<std::string> names;
  if (call.has_attribute("activations")) {
    names = call.attribute("activations").texts;
  } else {
    for (std::int64_t d = 0; d < directions; ++d)
      names.insert(names.end(), kind.activations.begin(), kind.activations.end());
  }
  INGOT_CHECK(names.size() == count * static_cast<std::size_t>(directions),
              FormatError(call.where(), -1, "activations",
                          fmt::format("are {}, expected {} for each direction", names.size(), count)));
  for (std::size_t i = 0; i < count; ++i)
    cell.activations.push_back(activation(call, names[static_cast<std::size_t>(direction) * count + i]));
  return cell;
}

Values recurrent(const OpCall& call, const Kind& kind) {
  const bool batch_first = call.integer("layout", 0) != 0;
  const auto transposed = [&](const Tensor& x) { return batch_first ? contiguous(transpose(x, 0, 1)) : x; };
  const Tensor x = transposed(call.in(0, 3, 3));
  const std::string direction = call.text("direction", "forward");
  const std::int64_t directions = direction == "bidirectional" ? 2 : 1;
  INGOT_CHECK(
      x.rank() == 3 && call.in(1, 3, 3).dim(0) == directions && call.in(2, 3, 3).dim(0) == directions,
      DimensionMismatch(fmt::format("{}: input {} and weight {} for {} directions", call.where(),
                                    to_string(x.shape()), to_string(call.in(1).shape()), directions)));
  const std::int64_t batch = x.dim(1);
  Tensor lengths;
  if (call.has(4)) lengths = Tensor::from(as_integers(call.in(4)), {batch, 1}, x.device());
  std::vector<Tensor> h, c, y;
  for (std::int64_t d = 0; d < directions; ++d) {
    const Cell cell = cell_of(call, kind, d, directions);
    const auto initial = [&](std::size_t i) {
      return call.has(i) ? select(transposed(call.in(i, 3, 3)), 0, d)
                         : Tensor::zeros({batch, cell.hidden}, x.dtype(), x.device());
    };
    std::vector<Tensor> steps;
    const State last = run_direction(kind, cell, x, {initial(5), kind.has_cell_state ? initial(6) : Tensor()},
                                     d == 1 || direction == "reverse", lengths, steps);
    h.push_back(last.h);
    if (kind.has_cell_state) c.push_back(last.c);
    y.push_back(steps.empty() ? Tensor::zeros({0, batch, cell.hidden}, x.dtype(), x.device()) : stack(steps));
  }
  // [sequence, directions, batch, hidden], or [batch, sequence, directions, hidden].
  const Tensor all = batch_first ? contiguous(permute(stack(y), {2, 1, 0, 3})) : stack(y, 1);
  Values results{all, transposed(stack(h))};
  if (kind.has_cell_state) results.emplace_back(transposed(stack(c)));
  return results;
}

template <bool kPrepacked>
Values rnn(const OpCall& call) {
  return recurrent(call, {1, {"Tanh"}, rnn_step, false, true, kPrepacked});
}
template <bool kPrepacked>
Values gru(const OpCall& call) {
  return recurrent(call, {3, {"Sigmoid", "Tanh"}, gru_step, false, false, kPrepacked});
}
template <bool kPrepacked>
Values lstm(const OpCall& call) {
  return recurrent(call, {4, {"Sigmoid", "Tanh", "Tanh"}, lstm_step, true, true, kPrepacked});
}

template <bool kPrepacked>
constexpr std::array kRecurrentOps = {OpRow{"GRU", gru<kPrepacked>, kEveryInput},
                                      OpRow{"LSTM", lstm<kPrepacked>, kEveryInput},
                                      OpRow{"RNN", rnn<kPrepacked>, kEveryInput}};

}  // namespace

std::span<const OpRow> recurrent_ops() { return kRecurrentOps<false>; }

const OpRow* prepacked_recurrent(std::string_view op) {
  const auto found = std::ranges::find(kRecurrentOps<true>, op, &OpRow::name);
  return found == kRecurrentOps<true>.end() ? nullptr : &*found;
}

}  // namespace ingot::onnx

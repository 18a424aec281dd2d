#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/sequence/scan_shape.h"
#include "ingot/kernels/delta_rule.h"

namespace ingot::kernels::cuda {
namespace {

constexpr std::int64_t kWidestKeys = 256;

// The elements of a row that are a lane's: every kWarp-th of up to kParts · kWarp, zeros beyond the width.
template <int kParts>
struct LaneRow {
  float values[kParts];

  __device__ static std::int64_t place(int i) { return threadIdx.x % kWarp + std::int64_t{i} * kWarp; }
  __device__ void clear() {
    INGOT_UNROLL
    for (int i = 0; i < kParts; ++i) values[i] = 0;
  }
  __device__ void load(const float* row, std::int64_t width) {
    INGOT_UNROLL
    for (int i = 0; i < kParts; ++i) values[i] = place(i) < width ? row[place(i)] : 0.0F;
  }
  __device__ void store(float* row, std::int64_t width) const {
    INGOT_UNROLL
    for (int i = 0; i < kParts; ++i)
      if (place(i) < width) row[place(i)] = values[i];
  }
  __device__ float dot(const LaneRow& other) const {
    float sum = 0;
    INGOT_UNROLL
    for (int i = 0; i < kParts; ++i) sum += values[i] * other.values[i];
    return warp_sum(sum);
  }
  __device__ void scale(float by) {
    INGOT_UNROLL
    for (int i = 0; i < kParts; ++i) values[i] *= by;
  }
  __device__ void add(float by, const LaneRow& other) {
    INGOT_UNROLL
    for (int i = 0; i < kParts; ++i) values[i] += by * other.values[i];
  }
};

// What a warp needs to take a row of a state one step further.
template <int kParts>
__device__ void correct(LaneRow<kParts>& row, bool begins, float decay, float beta, float x,
                        const LaneRow<kParts>& keys) {
  if (begins) {  // not by a product with 0, which would keep the infinities of the document before
    row.clear();
  } else {
    row.scale(expf(decay));
  }
  row.add(beta * (x - row.dot(keys)), keys);
}

// A warp for each row of a head's state, which stays in its registers.
template <int kParts>
__global__ void delta_rule_kernel(ScanShape shape, const float* x, const float* decay, const float* beta,
                                  const float* keys, const float* queries, float* state, float* y) {
  const std::int64_t head = blockIdx.x;
  const std::int64_t p = std::int64_t{blockIdx.y} * kScanWarps + threadIdx.x / kWarp;
  if (p >= shape.size) return;
  float* memory = state + (head * shape.size + p) * shape.width;
  LaneRow<kParts> row, k, q;
  row.load(memory, shape.width);
  for (std::int64_t t = 0; t < shape.steps; ++t) {
    const std::int64_t at = shape.step(head, t);
    k.load(keys + shape.keys(head, t), shape.width);
    q.load(queries + shape.keys(head, t), shape.width);
    correct(row, shape.begins(head, t), decay[at], beta[at], x[at * shape.size + p], k);
    const float sum = row.dot(q);
    if (threadIdx.x % kWarp == 0) y[at * shape.size + p] = sum;
  }
  row.store(memory, shape.width);
}

struct DeltaBackward {
  ScanShape shape;
  const float *x, *decay, *beta, *keys, *queries, *dy;
  float *states, *history, *gradient, *dx, *ddecay, *dbeta, *dkeys, *dqueries;
  std::int64_t parts, part_steps;  // T = parts · part_steps at most
  bool accumulate_dx, accumulate_ddecay, accumulate_dbeta;

  __device__ float* state_before(std::int64_t head, std::int64_t part, std::int64_t p) const {
    return states + ((head * parts + part) * shape.size + p) * shape.width;
  }
  __device__ float* state_of(std::int64_t head, std::int64_t p, std::int64_t step) const {
    return history + ((head * shape.size + p) * part_steps + step) * shape.width;
  }
  __device__ bool first(std::int64_t head, std::int64_t t) const { return t == 0 || shape.begins(head, t); }
};

template <int kParts>
__device__ void advance(const DeltaBackward& args, std::int64_t head, std::int64_t p, std::int64_t t,
                        LaneRow<kParts>& row) {
  const std::int64_t at = args.shape.step(head, t);
  LaneRow<kParts> k;
  k.load(args.keys + args.shape.keys(head, t), args.shape.width);
  correct(row, args.first(head, t), args.decay[at], args.beta[at], args.x[at * args.shape.size + p], k);
}

// The states before each part of the steps.
template <int kParts>
__device__ void keep_states(const DeltaBackward& args, std::int64_t head, std::int64_t p) {
  LaneRow<kParts> row;
  row.clear();
  for (std::int64_t part = 0; part < args.parts; ++part) {
    row.store(args.state_before(head, part, p), args.shape.width);
    if (part + 1 == args.parts) break;
    for (std::int64_t t = part * args.part_steps; t < (part + 1) * args.part_steps; ++t)
      advance(args, head, p, t, row);
  }
}

// Sums over the rows of a warp, and over those of all.
template <int kParts>
struct DeltaSums {
  LaneRow<kParts> dkeys, dqueries;
  double ddecay = 0, dbeta = 0;
};

// One row of one step, as the CPU's reference explains it.
template <int kParts>
__device__ void step_back(const DeltaBackward& args, std::int64_t head, std::int64_t p, std::int64_t t,
                          DeltaSums<kParts>& sums) {
  const std::int64_t width = args.shape.width, at = args.shape.step(head, t), i = at * args.shape.size + p;
  const std::int64_t part = t / args.part_steps, in_part = t % args.part_steps;
  const bool first = args.first(head, t);
  const float x = args.x[i], dy = args.dy[i], beta = args.beta[at];
  LaneRow<kParts> g, before, after, k;
  k.load(args.queries + args.shape.keys(head, t), width);
  g.load(args.gradient + (head * args.shape.size + p) * width, width);
  g.add(dy, k);
  k.load(args.keys + args.shape.keys(head, t), width);
  after.load(args.state_of(head, p, in_part), width);
  const float decay = first ? 0.0F : expf(args.decay[at]);
  if (first) {
    before.clear();
  } else {
    before.load(in_part == 0 ? args.state_before(head, part, p) : args.state_of(head, p, in_part - 1), width);
    before.scale(decay);
  }
  const float answer = before.dot(k), derror = g.dot(k), kept = g.dot(before), back = beta * derror;
  sums.dkeys.add(beta * (x - answer), g);
  sums.dkeys.add(-back, before);
  sums.dqueries.add(dy, after);
  sums.ddecay += static_cast<double>(kept) - static_cast<double>(back) * static_cast<double>(answer);
  sums.dbeta += static_cast<double>(derror) * static_cast<double>(x - answer);
  if (first) {
    g.clear();
  } else {
    g.add(-back, k);
    g.scale(decay);
  }
  g.store(args.gradient + (head * args.shape.size + p) * width, width);
  if (threadIdx.x % kWarp == 0 && args.dx != nullptr) store(args.dx + i, back, args.accumulate_dx);
}

// A block for each head, a warp for each of its rows.
template <int kParts>
__global__ void delta_rule_backward_kernel(const __grid_constant__ DeltaBackward args) {
  INGOT_DYNAMIC_SHARED(float, shared);
  const ScanShape& shape = args.shape;
  const std::int64_t head = blockIdx.x, warp = threadIdx.x / kWarp, width = shape.width;
  LaneRow<kParts> row;
  for (std::int64_t p = warp; p < shape.size; p += kScanWarps) {
    row.clear();
    row.store(args.gradient + (head * shape.size + p) * width, width);
    keep_states<kParts>(args, head, p);
  }
  for (std::int64_t part = args.parts - 1; part >= 0; --part) {
    const std::int64_t begin = part * args.part_steps,
                       end = begin + args.part_steps < shape.steps ? begin + args.part_steps : shape.steps;
    for (std::int64_t p = warp; p < shape.size; p += kScanWarps) {
      row.load(args.state_before(head, part, p), width);
      for (std::int64_t t = begin; t < end; ++t) {
        advance(args, head, p, t, row);
        row.store(args.state_of(head, p, t - begin), width);
      }
    }
    for (std::int64_t t = end - 1; t >= begin; --t) {
      DeltaSums<kParts> sums;
      sums.dkeys.clear();
      sums.dqueries.clear();
      for (std::int64_t p = warp; p < shape.size; p += kScanWarps) step_back(args, head, p, t, sums);
      const std::int64_t at = shape.step(head, t);
      sums.dkeys.store(shared + warp * width, width);
      add_scan_warps(shared, width, args.dkeys + at * width);
      sums.dqueries.store(shared + warp * width, width);
      add_scan_warps(shared, width, args.dqueries + at * width);
      const bool one = threadIdx.x % kWarp == 0;
      const double ddecay = ThreadGroup<kScanBlock>::sum(one ? sums.ddecay : 0.0);
      const double dbeta = ThreadGroup<kScanBlock>::sum(one ? sums.dbeta : 0.0);
      if (threadIdx.x != 0) continue;
      if (args.ddecay != nullptr) store(args.ddecay + at, static_cast<float>(ddecay), args.accumulate_ddecay);
      if (args.dbeta != nullptr) store(args.dbeta + at, static_cast<float>(dbeta), args.accumulate_dbeta);
    }
  }
}

// f.operator()<kParts>() for the width of keys.
template <class F>
void with_parts(std::int64_t width, F&& f) {
  if (width <= kWarp) return f.template operator()<1>();
  if (width <= 2 * kWarp) return f.template operator()<2>();
  if (width <= 4 * kWarp) return f.template operator()<4>();
  f.template operator()<8>();
}

void run_delta_rule(const DeltaRuleArgs& args, Stream stream) {
  const ScanShape shape = scan_shape_of(args.x, args.keys, args.starts);
  const std::int64_t heads = args.x.dim(0) * shape.heads;
  with_parts(shape.width, [&]<int kParts>() {
    launch({"delta_rule", stream, args.x}, delta_rule_kernel<kParts>,
           Size3{static_cast<unsigned>(heads),
                 static_cast<unsigned>((shape.size + kScanWarps - 1) / kScanWarps)},
           Size3{kScanBlock}, 0, shape, args.x.as<float>(), args.decay.as<float>(), args.beta.as<float>(),
           args.keys.as<float>(), args.queries.as<float>(), args.state.as<float>(), args.y.as<float>());
  });
}

void run_delta_rule_backward(const DeltaRuleBackwardArgs& args, Stream stream) {
  const ScanShape shape = scan_shape_of(args.x, args.keys, args.starts);
  const DeltaBackward backward{.shape = shape,
                               .x = args.x.as<float>(),
                               .decay = args.decay.as<float>(),
                               .beta = args.beta.as<float>(),
                               .keys = args.keys.as<float>(),
                               .queries = args.queries.as<float>(),
                               .dy = args.dy.as<float>(),
                               .states = args.states.as<float>(),
                               .history = args.history.as<float>(),
                               .gradient = args.gradient.as<float>(),
                               .dx = args.dx ? args.dx.as<float>() : nullptr,
                               .ddecay = args.ddecay ? args.ddecay.as<float>() : nullptr,
                               .dbeta = args.dbeta ? args.dbeta.as<float>() : nullptr,
                               .dkeys = args.dkeys.as<float>(),
                               .dqueries = args.dqueries.as<float>(),
                               .parts = args.states.dim(2),
                               .part_steps = args.history.dim(3),
                               .accumulate_dx = args.accumulate_dx,
                               .accumulate_ddecay = args.accumulate_ddecay,
                               .accumulate_dbeta = args.accumulate_dbeta};
  with_parts(shape.width, [&]<int kParts>() {
    launch({"delta_rule_backward", stream, args.x}, delta_rule_backward_kernel<kParts>,
           Size3{static_cast<unsigned>(args.x.dim(0) * shape.heads)}, Size3{kScanBlock},
           static_cast<std::size_t>(kScanWarps * shape.width) * sizeof(float), backward);
  });
}

template <class Args>
bool takes(const Args& args) {
  return args.x.dtype == DType::f32 && args.keys.dim(3) <= kWidestKeys;
}

}  // namespace

void register_delta_rule() {
  delta_rule.add(DeviceType::cuda, {"cuda", ImplKind::cuda, takes<DeltaRuleArgs>, run_delta_rule});
  delta_rule_backward.add(DeviceType::cuda,
                          {"cuda", ImplKind::cuda, takes<DeltaRuleBackwardArgs>, run_delta_rule_backward});
}

}  // namespace ingot::kernels::cuda

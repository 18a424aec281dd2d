#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cublasLt.h>
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/log.h"
#include "ingot/base/shared_library.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/cuda/gemm/blas_gemm.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/runtime/autotune.h"
#include "ingot/kernels/cuda/runtime/driver.h"
#include "ingot/kernels/cuda/runtime/sync.h"
#include "ingot/kernels/matmul_precision.h"

// Matmuls through cuBLASLt, which is looked for when it is first needed. What its heuristic chose for
// a matmul is kept; with INGOT_CUDA_AUTOTUNE the best of its proposals, each of which is tried once. Left to
// our own kernel: what blas_gemm() cannot say, and what the heuristic has no answer for.
namespace ingot::kernels::cuda {
namespace {

struct Library {
  std::string problem;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmulDescCreate) make_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

Library make_library() {
  Library found;
  const std::array<std::string, 4> names{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                         "/usr/local/cuda/lib64/libcublasLt.so"};
  SharedLibrary library(names);
  library.find(found.create, "cublasLtCreate");
  library.find(found.version, "cublasLtGetVersion");
  library.find(found.status_string, "cublasLtGetStatusString");
  library.find(found.make_operation, "cublasLtMatmulDescCreate");
  library.find(found.destroy_operation, "cublasLtMatmulDescDestroy");
  library.find(found.set_operation, "cublasLtMatmulDescSetAttribute");
  library.find(found.make_layout, "cublasLtMatrixLayoutCreate");
  library.find(found.destroy_layout, "cublasLtMatrixLayoutDestroy");
  library.find(found.set_layout, "cublasLtMatrixLayoutSetAttribute");
  library.find(found.make_preference, "cublasLtMatmulPreferenceCreate");
  library.find(found.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  library.find(found.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  library.find(found.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(found.matmul, "cublasLtMatmul");
  found.problem = library.problem();
  if (!found.problem.empty())
    log(LogLevel::warn, "ingot::cuda",
        fmt::format("{}; matmuls take the plain kernels, which are slow", found.problem));
  return found;
}

const Library& library() {
  static const Library found = make_library();
  return found;
}

void check(cublasStatus_t status, const char* what) {
  INGOT_CHECK(
      status == CUBLAS_STATUS_SUCCESS,
      KernelError("gemm", fmt::format("cuBLASLt: {} failed: {}", what, library().status_string(status))));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3:
      return CUDA_R_8F_E4M3;
    case DType::f8e5m2:
      return CUDA_R_8F_E5M2;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

Owned<cublasLtMatrixLayout_t> layout(const BlasGemm& matmul, const ColumnMatrix& matrix) {
  cublasLtMatrixLayout_t made = nullptr;
  check(library().make_layout(&made, type_of(matrix.dtype), static_cast<std::uint64_t>(matrix.rows),
                              static_cast<std::uint64_t>(matrix.columns), matrix.leading),
        "describing a matrix");
  Owned<cublasLtMatrixLayout_t> owned(made, library().destroy_layout);
  const auto batch = static_cast<std::int32_t>(matmul.batch);
  check(library().set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
        "describing a batch");
  check(library().set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batch_stride,
                             sizeof matrix.batch_stride),
        "describing a batch");
  return owned;
}

cublasLtEpilogue_t epilogue(const BlasGemm& matmul) {
  const bool bias = matmul.bias != nullptr;
  if (matmul.b_sums != nullptr) return CUBLASLT_EPILOGUE_BGRADB;
  if (matmul.gelu == BlasGemm::Gelu::gradient) return CUBLASLT_EPILOGUE_DGELU;
  if (matmul.gelu == BlasGemm::Gelu::none) return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (matmul.before == nullptr) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
}

/// How the operands are multiplied: f32 ones in TF32 where that is exact enough.
cublasComputeType_t compute_type(const BlasGemm& matmul) {
  const bool rounded = matmul.a.dtype == DType::f32 && matmul_precision() == MatmulPrecision::medium;
  return rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

Owned<cublasLtMatmulDesc_t> operation(const BlasGemm& matmul) {
  cublasLtMatmulDesc_t made = nullptr;
  check(library().make_operation(&made, compute_type(matmul), CUDA_R_32F), "describing a matmul");
  Owned<cublasLtMatmulDesc_t> owned(made, library().destroy_operation);
  const auto set = [made](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(library().set_operation(made, attribute, &value, sizeof value), "describing a matmul");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, matmul.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, matmul.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  // The position of a bias is that of its gradient, too.
  const void* bias = matmul.b_sums != nullptr ? matmul.b_sums : matmul.bias;
  if (bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (matmul.a_scale != nullptr) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, matmul.a_scale);
  if (matmul.b_scale != nullptr) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, matmul.b_scale);
  if (matmul.block_scales) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
  }
  if (matmul.before != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, matmul.before);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, matmul.c.leading);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, matmul.c.batch_stride);
  }
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(matmul));
  return owned;
}

/// The largest power of two up to 256 that divides the address, and the way to the next of its kind.
std::uint32_t alignment(const void* data, std::uint64_t next = 0) {
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(data) | next | 256U;
  return static_cast<std::uint32_t>(address & -address);
}
std::uint32_t alignment(const ColumnMatrix& matrix) {
  return alignment(matrix.data, static_cast<std::uint64_t>(matrix.outer_stride) * byte_size(matrix.dtype));
}

constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20;

/// What the choice of an algorithm depends on.
using Key = std::array<std::int64_t, 25>;

Key key_of(const BlasGemm& p) {
  return {p.a.rows,
          p.a.columns,
          p.a.leading,
          p.a.batch_stride,
          p.a.transposed ? 1 : 0,
          p.b.rows,
          p.b.columns,
          p.b.leading,
          p.b.batch_stride,
          p.b.transposed ? 1 : 0,
          p.c.leading,
          p.c.batch_stride,
          p.batch,
          static_cast<std::int64_t>(p.dtype),
          static_cast<std::int64_t>(p.a.dtype),
          static_cast<std::int64_t>(p.b.dtype),
          static_cast<std::int64_t>(compute_type(p)),
          p.a_scale == nullptr ? 0
          : p.block_scales     ? 2
                               : 1,
          static_cast<std::int64_t>(epilogue(p)),
          alignment(p.before, static_cast<std::uint64_t>(p.c.outer_stride) * byte_size(p.c.dtype)),
          p.beta == 0.0F ? 0 : 1,
          alignment(p.a),
          alignment(p.b),
          alignment(p.c),
          alignment(p.b_sums != nullptr ? p.b_sums : p.bias)};
}

/// cuBLASLt on one device. Any thread.
class Matmuls {
 public:
  explicit Matmuls(int device) : device_(device) {
    driver::use(device);
    const cublasStatus_t status = library().create(&handle_);
    if (status == CUBLAS_STATUS_SUCCESS) return;
    handle_ = nullptr;
    log(LogLevel::warn, "ingot::cuda",
        fmt::format("cuBLASLt did not start ({}); matmuls take the plain kernels, which are slow",
                    library().status_string(status)));
  }

  /// Whether there is an algorithm; asks for proposals the first time.
  bool has(const BlasGemm& matmul) {
    if (handle_ == nullptr) return false;
    const std::lock_guard lock(mutex_);
    return !choice(matmul).proposals.empty();
  }

  void run(const BlasGemm& matmul, Stream stream) {
    Proposal chosen;
    {
      const std::lock_guard lock(mutex_);
      Choice& found = choice(matmul);
      if (found.proposals.size() > 1 && driver::can_wait(stream.native)) {
        found.proposals = {found.proposals[try_out(found.proposals, matmul.one(0), stream)]};
      }
      chosen = found.proposals.front();
    }
    for (std::int64_t i = 0; i < matmul.outer; ++i) {
      const BlasGemm one = matmul.one(i);
      check(start(one, chosen, one.c.data, stream), "a matmul");
    }
    wait_after_launch("gemm", stream);
  }

 private:
  struct Proposal {
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace = 0;
  };
  struct Choice {
    std::vector<Proposal> proposals;  // of the library, the one that it likes best first; then the chosen one
  };

  // With the lock held.
  Choice& choice(const BlasGemm& matmul) {
    const auto [entry, missing] = choices_.try_emplace(key_of(matmul));
    if (missing) entry->second.proposals = ask(matmul, autotunes() ? kMostProposals : 1);
    return entry->second;
  }

  // Enqueues the matmul in the stream; `to` gets it, matmul.c is what beta is for.
  cublasStatus_t start(const BlasGemm& matmul, const Proposal& chosen, void* to, Stream stream) const {
    driver::use(device_);
    // The allocator gives the memory on only within this stream, whose work comes after the matmul.
    const StreamGuard guard(stream);
    const Tensor workspace =
        Tensor::empty({static_cast<std::int64_t>(chosen.workspace)}, DType::u8, stream.device);
    const auto op = operation(matmul);
    const auto a = layout(matmul, matmul.a), b = layout(matmul, matmul.b), c = layout(matmul, matmul.c);
    return library().matmul(handle_, op.get(), &matmul.alpha, matmul.a.data, a.get(), matmul.b.data, b.get(),
                            &matmul.beta, matmul.c.data, c.get(), to, c.get(), &chosen.algorithm,
                            workspace.view().data, chosen.workspace,
                            static_cast<cudaStream_t>(stream.native));
  }

  // Which proposal is the fastest on these very operands. The result goes elsewhere: it may be a sum that the
  // matmul adds to.
  std::size_t try_out(const std::vector<Proposal>& proposals, const BlasGemm& matmul, Stream stream) const
      try {
    const StreamGuard guard(stream);
    const Tensor result = Tensor::empty({result_extent(matmul)}, matmul.dtype, stream.device);
    const driver::Stopwatch watch;
    return fastest(proposals.size(), [&](std::size_t i, std::int64_t times) {
      const auto put = [&] {
        return start(matmul, proposals[i], result.view().data, stream) == CUBLAS_STATUS_SUCCESS;
      };
      // The device is busy with this one while the host prepares the next, so that only the device's time
      // counts.
      if (!put()) return -1.0;
      watch.start(stream.native);
      for (std::int64_t n = 0; n < times; ++n) {
        if (!put()) return -1.0;
      }
      return watch.stop(stream.native);
    });
  } catch (const OutOfMemory&) {
    return 0;  // on a full device the library's own favourite has to do
  }

  // Elements from the first to the last of the result.
  static std::int64_t result_extent(const BlasGemm& matmul) {
    const ColumnMatrix& c = matmul.c;
    return (matmul.batch - 1) * c.batch_stride + (c.columns - 1) * c.leading + c.rows;
  }

  std::vector<Proposal> ask(const BlasGemm& matmul, int most) const {
    driver::use(device_);
    cublasLtMatmulPreference_t made = nullptr;
    check(library().make_preference(&made), "describing a preference");
    const Owned<cublasLtMatmulPreference_t> preference(made, library().destroy_preference);
    const auto set = [made](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(library().set_preference(made, attribute, &value, sizeof value), "describing a preference");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    // Parts of a sum are f32 until all are there, whatever the result is.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(matmul.a));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(matmul.b));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(matmul.c));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(matmul.c));
    const auto op = operation(matmul);
    const auto a = layout(matmul, matmul.a), b = layout(matmul, matmul.b), c = layout(matmul, matmul.c);
    std::array<cublasLtMatmulHeuristicResult_t, kMostProposals> results{};
    int count = 0;
    const cublasStatus_t status = library().heuristic(handle_, op.get(), a.get(), b.get(), c.get(), c.get(),
                                                      made, most, results.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS) return {};
    std::vector<Proposal> proposals;
    for (int i = 0; i < count; ++i) {
      const auto& result = results[static_cast<std::size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) proposals.push_back({result.algo, result.workspaceSize});
    }
    return proposals;
  }

  static constexpr int kMostProposals = 8;

  int device_;
  cublasLtHandle_t handle_ = nullptr;  // kept to the end: the driver may be gone before static objects are
  std::mutex mutex_;
  std::map<Key, Choice> choices_;
};

Matmuls& matmuls(Device device) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Matmuls>> made;
  const std::lock_guard lock(mutex);
  auto& found = made[device.index];
  if (found == nullptr) found = std::make_unique<Matmuls>(device.index);
  return *found;
}

/// Whether this version of the library has words for it, and its result is as near as ours; which GPUs it
/// can do it on, its heuristic knows.
bool knows(const BlasGemm& matmul) {
  constexpr std::size_t kFirstWithBlockScales = 120900;
  if (matmul.block_scales && library().version() < kFirstWithBlockScales) return false;
  // In f32 its gradient of gelu is off by 3e-5 (on an H200), where two kernels of ours stay below 2e-5.
  return matmul.gelu != BlasGemm::Gelu::gradient || matmul.dtype != DType::f32;
}

template <class Args>
Device device_of(const Args& args) {
  return args.c.device;
}
Device device_of(const LinearParametersBackwardArgs& args) { return args.dweight.device; }

template <class Args>
bool takes(const Args& args) {
  if (!library().problem.empty()) return false;
  const auto matmul = blas_gemm(args);
  return matmul && knows(*matmul) && matmuls(device_of(args)).has(*matmul);
}

template <class Args>
void run(const Args& args, Stream stream) {
  matmuls(stream.device).run(*blas_gemm(args), stream);
}

void run_parameters(const LinearParametersBackwardArgs& args, Stream stream) {
  BlasGemm matmul = *blas_gemm(args);
  if (!args.accumulate_bias) return matmuls(stream.device).run(matmul, stream);
  const StreamGuard guard(stream);
  const Tensor sums = Tensor::empty({args.dbias.dim(0)}, args.dbias.dtype, stream.device);
  matmul.b_sums = sums.view().data;
  matmuls(stream.device).run(matmul, stream);
  launch(copy, stream, {.x = sums.view(), .y = args.dbias, .accumulate = true});
}

void run_fp8(const Fp8MatmulArgs& args, Stream stream) {
  BlasGemm matmul = *blas_gemm(args);
  if (!matmul.block_scales) return matmuls(stream.device).run(matmul, stream);
  // Both are in use until the matmul ends, and their memory is given on within this stream only.
  const BlasScales scales(args, stream);
  matmul.a_scale = scales.a.view().as<float>();
  matmul.b_scale = scales.b.view().as<float>();
  matmuls(stream.device).run(matmul, stream);
}

}  // namespace

void register_cublaslt() {
  gemm.add(DeviceType::cuda, {"cublaslt", ImplKind::library, takes<GemmArgs>, run<GemmArgs>});
  gemm_gelu.add(DeviceType::cuda, {"cublaslt", ImplKind::library, takes<GemmGeluArgs>, run<GemmGeluArgs>});
  gemm_gelu_backward.add(DeviceType::cuda, {"cublaslt", ImplKind::library, takes<GemmGeluBackwardArgs>,
                                            run<GemmGeluBackwardArgs>});
  linear_parameters_backward.add(
      DeviceType::cuda, {"cublaslt", ImplKind::library, takes<LinearParametersBackwardArgs>, run_parameters});
  fp8_matmul.add(DeviceType::cuda, {"cublaslt", ImplKind::library, takes<Fp8MatmulArgs>, run_fp8});
}

}  // namespace ingot::kernels::cuda

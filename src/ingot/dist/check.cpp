#include "ingot/dist/check.h"

#include <algorithm>
#include <cstdint>

#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"
#include "ingot/dist/ordered_sum.h"

namespace ingot::dist {
namespace {

constexpr int kRepeats = 5;
constexpr std::int64_t kPeriod = 251;  // whole numbers, whose sums are exact in any order

std::span<std::byte> bytes_of(const Tensor& x) { return {x.view().as<std::byte>(), x.nbytes()}; }

class Check {
 public:
  Check(Communicator& communicator, Device device, std::size_t bytes)
      : communicator_(communicator),
        device_(device),
        ranks_(communicator.size()),
        n_(std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / sizeof(float)) / ranks_) * ranks_) {
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      const auto begin = static_cast<std::size_t>(rank * part());
      slices_.push_back({begin, begin + static_cast<std::size_t>(part())});
    }
  }

  std::vector<CheckedOperation> run() {
    const Tensor x = values([](std::int64_t i, std::int64_t rank) { return i % kPeriod + rank; });
    all_reduce_and_gather();
    sums(x);
    if (Communicator* engine = communicator_.of(device_)) moves(*engine, x);
    return std::move(rows_);
  }

 private:
  using Value = FunctionRef<std::int64_t(std::int64_t, std::int64_t)>;
  std::int64_t part() const { return n_ / ranks_; }
  Slice own() const { return slices_[static_cast<std::size_t>(communicator_.rank())]; }

  // What a formula gives for each index and this rank.
  Tensor values(Value value) const {
    std::vector<float> all;
    all.reserve(static_cast<std::size_t>(n_));
    for (std::int64_t i = 0; i < n_; ++i) all.push_back(static_cast<float>(value(i, communicator_.rank())));
    const Tensor x = Tensor::from(all, {n_}, device_);
    backend(device_).synchronize(current_stream(device_));
    return x;
  }
  static bool equal(const Tensor& x, const Tensor& y) { return x.to_vector<float>() == y.to_vector<float>(); }

  // `moved`: the share of the bytes that a rank sends.
  void note(std::string name, const Tensor& got, const Tensor& expected, double moved,
            FunctionRef<void()> work) {
    const bool wrong = communicator_.any(!equal(got, expected));
    std::vector<double> seconds;
    seconds.reserve(kRepeats);
    for (int i = 0; i < kRepeats; ++i) {
      communicator_.barrier();
      const Stopwatch since;
      work();
      seconds.push_back(since.seconds());
    }
    std::ranges::sort(seconds);
    const double median = seconds[kRepeats / 2];
    rows_.push_back({std::move(name), !wrong, median, moved * static_cast<double>(n_ * 4) / median});
  }

  std::int64_t summed(std::int64_t i) const { return ranks_ * (i % kPeriod) + ranks_ * (ranks_ - 1) / 2; }
  double others() const { return static_cast<double>(ranks_ - 1) / static_cast<double>(ranks_); }

  void all_reduce_and_gather() {
    const Tensor sum = values([](std::int64_t i, std::int64_t rank) { return i % kPeriod + rank; });
    all_reduce(communicator_, sum);
    note("all-reduce", sum, values([this](std::int64_t i, std::int64_t) { return summed(i); }), 2 * others(),
         [&] { all_reduce(communicator_, sum); });
    const Tensor all = values([](std::int64_t i, std::int64_t rank) { return i % kPeriod + rank; });
    const auto expected = [this](std::int64_t i, std::int64_t) { return i % kPeriod + i / part(); };
    all_gather(communicator_, all, slices_);
    note("all-gather", all, values(expected), others(), [&] { all_gather(communicator_, all, slices_); });
  }

  void sums(const Tensor& x) {
    const std::vector<bool> contributes(static_cast<std::size_t>(ranks_), true);
    const Tensor got = slice_of(values([](std::int64_t, std::int64_t) { return 0; }), own());
    const Tensor expected =
        slice_of(values([this](std::int64_t i, std::int64_t) { return summed(i); }), own());
    const auto ordered = [&] { ordered_reduce_scatter(communicator_, x, slices_, contributes, got, false); };
    ordered();
    note("reduce-scatter in the order of ranks", got, expected, others(), ordered);
    const Communicator* engine = communicator_.of(device_);
    if (engine == nullptr || !engine->reduces(x.dtype())) return;
    const Tensor other = slice_of(values([](std::int64_t, std::int64_t) { return 0; }), own());
    const auto fast = [&] { fast_reduce_scatter(communicator_, x, slices_, contributes, other, false); };
    fast();
    note("reduce-scatter", other, expected, others(), fast);
  }

  void moves(Communicator& engine, const Tensor& x) {
    std::vector<Slice> bytes;
    bytes.reserve(slices_.size());
    for (const Slice& slice : slices_)
      bytes.push_back({slice.begin * sizeof(float), slice.end * sizeof(float)});
    const Tensor got = values([](std::int64_t, std::int64_t) { return 0; });
    const auto exchange = [&] { engine.all_to_all(bytes_of(x), bytes, bytes_of(got)); };
    exchange();
    note("all-to-all", got, values([this](std::int64_t i, std::int64_t rank) {
           return (rank * part() + i % part()) % kPeriod + i / part();
         }),
         others(), exchange);
    const Tensor of_last = values([](std::int64_t i, std::int64_t rank) { return i % kPeriod + rank; });
    const auto broadcast = [&] { engine.broadcast(bytes_of(of_last), static_cast<int>(ranks_ - 1)); };
    broadcast();
    note("broadcast", of_last,
         values([this](std::int64_t i, std::int64_t) { return i % kPeriod + ranks_ - 1; }), 1, broadcast);
    const auto pass = [&] {
      if (communicator_.is_first()) engine.send(bytes_of(x), static_cast<int>(ranks_ - 1));
      if (communicator_.rank() == ranks_ - 1) engine.receive(bytes_of(got), 0);
    };
    pass();
    const bool receives = communicator_.rank() == ranks_ - 1;
    note("send from the first to the last", receives ? got : x,
         values([&](std::int64_t i, std::int64_t rank) { return i % kPeriod + (receives ? 0 : rank); }), 1,
         pass);
  }

  Communicator& communicator_;
  Device device_;
  std::int64_t ranks_, n_;
  std::vector<Slice> slices_;
  std::vector<CheckedOperation> rows_;
};

}  // namespace

std::vector<CheckedOperation> check_operations(Communicator& communicator, Device device, std::size_t bytes) {
  return Check(communicator, device, bytes).run();
}

}  // namespace ingot::dist

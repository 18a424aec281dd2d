#include "ingot/train/expert_parallel.h"

#include <exception>
#include <future>
#include <memory>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/dist/ordered_sum.h"

namespace ingot {

ExpertParallel::ExpertParallel(dist::Communicator& communicator, dist::Background& background)
    : communicator_(communicator), background_(background) {}

// Behind what has been sent before.
void ExpertParallel::run(const std::function<void()>& work) const {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> ended = done->get_future();
  background_.run([work, done = std::move(done)] {
    try {
      work();
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
      throw;
    }
  });
  try {
    ended.get();
  } catch (const std::future_error&) {
    background_.wait();  // throws what ended the communication before it came to this
    throw Error("ranks: the rows of tokens did not reach their experts, as the communication had ended");
  }
}

std::vector<std::int64_t> ExpertParallel::all_gather(std::span<const std::int64_t> counts) const {
  std::vector<std::int64_t> all(counts.size() * static_cast<std::size_t>(size()));
  run([&] { communicator_.all_gather(std::as_bytes(counts), std::as_writable_bytes(std::span(all))); });
  return all;
}

Tensor ExpertParallel::all_to_all(const Tensor& x, std::span<const std::int64_t> borders) const {
  const std::int64_t width = x.dim(1);
  std::vector<dist::Slice> slices;
  slices.reserve(borders.size());
  for (std::size_t r = 0; r + 1 < borders.size(); ++r)
    slices.push_back(
        {static_cast<std::size_t>(borders[r] * width), static_cast<std::size_t>(borders[r + 1] * width)});
  const auto me = static_cast<std::size_t>(rank());
  const Tensor received =
      Tensor::empty({(borders[me + 1] - borders[me]) * size(), width}, x.dtype(), x.device());
  backend(x.device()).synchronize(current_stream(x.device()));
  run([&] { dist::all_to_all(communicator_, x, slices, received); });
  return received;
}

}  // namespace ingot

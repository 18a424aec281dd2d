#include "ingot/c_api/world.h"

#include <mutex>
#include <span>
#include <string>

#include "ingot/c_api/inner/objects.h"
#include "ingot/core/host_memory.h"
#include "ingot/dist/communicator.h"
#include "ingot/ops/cast.h"

using namespace ingot;
using namespace ingot::c_api;

namespace ingot::c_api {
namespace {

// The order of one call among those that all ranks make together.
class WorldTurn {
 public:
  WorldTurn() : lock_(mutex(), std::try_to_lock) {
    if (!lock_.owns_lock())
      throw Busy("another call of this process waits for the other ranks; they take one call at a time");
  }
  dist::Communicator* operator->() const { return &dist::world(); }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  std::unique_lock<std::mutex> lock_;
};

// What an operation of all ranks reads and writes: on the host, and contiguous.
Tensor exchanged(const Tensor& tensor) {
  INGOT_CHECK(tensor.is_contiguous(),
              DimensionMismatch("tensor: has to be contiguous; ingot_tensor_clone() makes one that is"));
  return to(tensor, kCpu);
}

void give_back(const Tensor& host, const Tensor& tensor) {
  if (!has_host_memory(tensor.device())) copy_(tensor, host);
}

}  // namespace
}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_world_info(IngotWorldInfo* info, size_t size) {
  return call(__func__, [&] {
    const WorldTurn world;
    fill(info, size,
         IngotWorldInfo{.rank = world->rank(),
                        .size = world->size(),
                        .local_rank = world->local_rank(),
                        .local_size = world->local_size()},
         "info");
  });
}

IngotStatus ingot_world_set_timeout(double seconds) {
  return call(__func__, [&] {
    if (!(seconds >= 0))
      throw InvalidArgument("seconds", "is " + std::to_string(seconds) + "; 0 waits for ever");
    const WorldTurn world;
    world->set_timeout(seconds);
  });
}

IngotStatus ingot_world_barrier(void) {
  return call(__func__, [&] {
    const WorldTurn world;
    world->barrier();
  });
}

IngotStatus ingot_all_reduce(IngotTensor* tensor) {
  return call(__func__, [&] {
    const Tensor own = tensor_arg(tensor);
    INGOT_CHECK(own.dtype() == DType::f32,
                KernelError("all_reduce", "sums f32, not " + std::string(name(own.dtype()))));
    const WorldTurn world;
    const Tensor host = exchanged(own);
    world->all_reduce({host.data<float>(), static_cast<std::size_t>(host.numel())});
    give_back(host, own);
  });
}

IngotStatus ingot_broadcast(IngotTensor* tensor, int32_t root) {
  return call(__func__, [&] {
    const Tensor own = tensor_arg(tensor);
    const WorldTurn world;
    if (root < 0 || root >= world->size())
      throw InvalidArgument(
          "root", "is " + std::to_string(root) + "; ranks are 0 to " + std::to_string(world->size() - 1));
    const Tensor host = exchanged(own);
    world->broadcast({static_cast<std::byte*>(host.view().data), host.nbytes()}, root);
    give_back(host, own);
  });
}

}  // extern "C"

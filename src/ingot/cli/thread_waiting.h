#pragma once

namespace ingot::cli {

/// Starts the program again, once, so that OpenMP's threads do not spin for milliseconds between operations,
/// which is libgomp's own way and makes two programs on one machine many times slower each, but for some 50
/// microseconds. libgomp reads its environment when it is
/// loaded, before main(). Does nothing where OMP_WAIT_POLICY or GOMP_SPINCOUNT is set; programs that this one
/// starts do not inherit it.
void bound_thread_waiting(char** argv);

}  // namespace ingot::cli

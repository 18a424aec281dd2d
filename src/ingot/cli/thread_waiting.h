#pragma once

namespace ingot::cli {

/// Starts the program again, once, so that OpenMP's threads spin for about half a millisecond between
/// operations and then sleep. libgomp's own way, many milliseconds, makes two programs on one machine many
/// times slower each; it reads its environment when it is loaded, before main(). Does nothing where
/// OMP_WAIT_POLICY or GOMP_SPINCOUNT is set; programs that this one starts do not inherit it.
void bound_thread_waiting(char** argv);

}  // namespace ingot::cli

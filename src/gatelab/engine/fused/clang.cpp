// clang's OpenMP: the four functions that its code for `parallel` and `barrier` calls, on top of those of GNU's runtime.
//
// GCC's code calls GOMP_parallel, which both runtimes have, GNU's libgomp and LLVM's libomp. clang's calls __kmpc_*, which
// only libomp has; its thread pool would compete with that of torch's libgomp. With these, kernels of both compilers run
// on the pool that torch has, whichever it is. They are hidden: a libomp that is loaded too is not disturbed.
#if defined(__clang__) && defined(_OPENMP) && defined(__linux__)
#include <cstdarg>
#include <cstdio>
#include <utility>

extern "C" {
void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);
void GOMP_barrier();
}

namespace {

typedef void Outlined(int* thread, int* bound, ...);  // the body of a parallel region, and pointers to its variables
constexpr int FEW = 128, MOST = 1024;  // variables; the largest kernel of the library has 80
thread_local unsigned wanted = 0;  // threads of the next region

struct Region {
  Outlined* body;
  int count;
  void* variables[MOST];
};

// In the calling conventions of Linux the caller removes the arguments, so that more may be passed than are read.
template <size_t... index>
void call(Region* region, int* thread, std::index_sequence<index...>) {
  typedef void Body(int*, int*, decltype((void)index, (void*)nullptr)...);
  ((Body*)region->body)(thread, thread, region->variables[index]...);
}

void enter(void* data) {
  Region* region = (Region*)data;
  int thread = omp_get_thread_num();
  if (region->count <= FEW) call(region, &thread, std::make_index_sequence<FEW>());
  else call(region, &thread, std::make_index_sequence<MOST>());
}

}  // namespace

#define HIDDEN extern "C" __attribute__((visibility("hidden")))

HIDDEN int __kmpc_global_thread_num(void*) { return omp_get_thread_num(); }
HIDDEN void __kmpc_push_num_threads(void*, int, int threads) { wanted = threads; }
HIDDEN void __kmpc_barrier(void*, int) { GOMP_barrier(); }
HIDDEN void __kmpc_fork_call(void*, int count, Outlined* body, ...) {
  if (count > MOST) {
    fprintf(stderr, "gatelab: a kernel has %d variables: clang's may have %d; set CXX to g++\n", count, MOST);
    abort();
  }
  Region region{body, count, {}};
  va_list list;
  va_start(list, body);
  for (int i = 0; i < count; i++) region.variables[i] = va_arg(list, void*);
  va_end(list);
  unsigned threads = wanted;
  wanted = 0;
  GOMP_parallel(enter, &region, threads, 0);
}
#endif

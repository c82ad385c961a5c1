// The threads of all kernels of a process. (Compiled together with products.cpp.)
//
// Work is divided into shares, and whoever is free takes the next one: the calling thread, or one of a pool. What a share
// computes does not depend on who runs it, so that results have the same bits on a busy machine, where the caller may run
// all of them itself. A thread that waits spins at first, and lets others have its core while it does; one that has lost
// its core or has waited for long sleeps.
//
// Torch has a pool too, OpenMP's. Its idle threads spin, and keep ours off the cores: so kernels use it instead where torch
// has several threads, until the machine is busy. Then these are made to sleep soon, and kernels have threads of their own.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <initializer_list>
#include <new>

namespace {

constexpr long MICROSECOND = 1000, MILLISECOND = 1000 * MICROSECOND;
constexpr long SPIN_INSIDE = 100 * MICROSECOND;  // until the others are done
constexpr long SPIN_BUSY = 100 * MICROSECOND;  // until there is work, where others need the core
constexpr long DISTURBED = 200 * MICROSECOND;  // longer than a barrier takes, also if threads were asleep
constexpr long SOON = 10 * MILLISECOND;  // after threads met: the same ones may still be spinning
constexpr long LOST = 1 * MILLISECOND;  // away for as long as this: another process has the core
constexpr long MARGIN = 100 * MICROSECOND;  // of the time that the caller would have taken alone
constexpr long LATE = 1 * MILLISECOND;  // longer than a sleeping thread takes to wake up
constexpr long ALONE_FIRST = 5 * MILLISECOND, ALONE_MOST = 1280 * MILLISECOND;
constexpr int MOST_CROWD = 256;  // threads; on machines with more cores torch's go on spinning
constexpr long CROWDED_FIRST = 1000 * MILLISECOND, CROWDED_MOST = 32 * CROWDED_FIRST;

long now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

template <class T>
T read(const T& value) {
  return __atomic_load_n(&value, __ATOMIC_SEQ_CST);
}

template <class T>
void write(T& value, T to) {
  __atomic_store_n(&value, to, __ATOMIC_SEQ_CST);
}

// Spins until `is_done`; false if it was not in time, or if the core was lost meanwhile.
template <class Done>
bool spun(long most, Done is_done) {
  for (long begin = 0, last = 0;;) {
    for (int i = 0; i < 32; i++) {  // a microsecond; most waits inside a kernel are over by then
      if (is_done()) return true;
#if defined(__SSE2__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      __asm__ volatile("yield");
#endif
    }
    sched_yield();
    const long time = now();
    if (begin == 0) begin = last = time;
    if (time - last > LOST || time - begin > most) return is_done();
    last = time;
  }
}

// Where threads sleep until something has changed.
struct Bed {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
  int sleeping = 0;

  template <class Done>
  void sleep_until(Done is_done) {
    pthread_mutex_lock(&mutex);
    write(sleeping, sleeping + 1);  // before it looks: whoever changes something looks here afterwards
    while (!is_done()) pthread_cond_wait(&changed, &mutex);
    write(sleeping, sleeping - 1);
    pthread_mutex_unlock(&mutex);
  }

  void wake() {
    if (!read(sleeping)) return;
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
  }
};

constexpr int MOST_WORKERS = 1023;
constexpr uint32_t CLOSED = ~0u;

struct alignas(64) Worker {
  int calls = 0;  // for which it is wanted
  Bed bed;
  pthread_t thread;
#if defined(__linux__)
  bool is_kept_off = false;  // the caller's core
  cpu_set_t allowed;
#endif
};

struct Job {
  Share* run;
  void* context;
  uint32_t shares;
};

}  // namespace

// What Python gives to a pool (kernel.py).
struct Given {
  const long* patience;  // microseconds for which an idle thread spins
  // GOMP_parallel and omp_get_max_threads; null if there is no OpenMP.
  void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
  int (*most_threads)();
  int (*cores)();  // omp_get_num_procs, if a crowd helps (see `Crowd`)
};

// Idle threads of OpenMP spin for milliseconds, and a thread that lost its core while it did makes everybody wait. GNU's
// runtime lets them sleep after 100 rounds whenever it has more threads than there are cores (its manual says so under
// GOMP_SPINCOUNT, which is read only at its start). So on a busy machine a thread of ours keeps a team of that many, asleep.
struct Crowd {
  int disturbances = 0;  // calls in which threads were missing, less an eighth of the others since
  uint32_t changes = 0;  // it is there after an odd number of them
  long until = 0, lasts = CROWDED_FIRST;
  Bed bed;
  bool is_there() const { return changes % 2; }
};

struct Pool {
  pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;
  Given given;
  int workers = 0;
  // When threads made the caller wait for longer than the work would have taken it alone, it does without them: for a
  // while, twice as long if it happens again. That is forgotten slowly: one such wait takes more than a few calls gain.
  long alone_until = 0, alone_for = ALONE_FIRST;
  pthread_t caller;
  long callers_wait = 0, callers_longest = 0;  // at barriers: in all, and at one of them
  long met = 0;  // when threads had to meet, which are ours
  bool has_waited = false;  // for longer than it gained, in the last call in which threads had to meet
  uint32_t callers_shares = 0;
  long callers_end = 0;
  Crowd crowd;
  Bed bed;  // of the caller, and of threads at a barrier
  alignas(64) Job job;
  // The number of the job, and its next share. A share is taken by adding 1, which fails if the job is another one by
  // then: `job` is written only while the ticket is closed.
  alignas(64) uint64_t ticket = CLOSED;
  alignas(64) uint32_t left = 0;  // shares that are not done
  Worker worker[MOST_WORKERS];
};

namespace {

Pool* pool;  // of all kernels (`use_pool`)

// Takes the next share and runs it; false if there is none.
bool run_next() {
  for (;;) {
    uint64_t ticket = read(pool->ticket);
    const Job job{__atomic_load_n(&pool->job.run, __ATOMIC_RELAXED), __atomic_load_n(&pool->job.context, __ATOMIC_RELAXED),
                  __atomic_load_n(&pool->job.shares, __ATOMIC_RELAXED)};
    const uint32_t share = (uint32_t)ticket;
    if (share == CLOSED || share >= job.shares) return false;
    if (!__atomic_compare_exchange_n(&pool->ticket, &ticket, ticket + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      continue;
    job.run(job.context, share);
    if (__atomic_sub_fetch(&pool->left, 1, __ATOMIC_SEQ_CST) == 0) pool->bed.wake();
    return true;
  }
}

void run_as_caller() {
  while (run_next()) pool->callers_shares++;
  pool->callers_end = now();
}

// Linux likes to wake a thread up on the core of whoever wakes it, where it would wait until the caller has done all the work
// itself, although other cores are idle. So a sleeping thread is kept off that core, until it is awake.
#if defined(__linux__)
void keep_off(Worker& worker) {
  cpu_set_t others;
  const int core = sched_getcpu();
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof others, &others)) return;
  worker.allowed = others;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others)) write(worker.is_kept_off, !pthread_setaffinity_np(worker.thread, sizeof others, &others));
}

void allow_all_cores(Worker& self) {
  if (!read(self.is_kept_off)) return;
  write(self.is_kept_off, false);
  sched_setaffinity(0, sizeof self.allowed, &self.allowed);
}
#else
void keep_off(Worker&) {}
void allow_all_cores(Worker&) {}
#endif

void call(Worker& worker) {
  if (read(worker.bed.sleeping)) {
    pthread_mutex_lock(&worker.bed.mutex);  // it may be waking up
    if (worker.bed.sleeping) keep_off(worker);
    pthread_mutex_unlock(&worker.bed.mutex);
  }
  __atomic_add_fetch(&worker.calls, 1, __ATOMIC_SEQ_CST);
  worker.bed.wake();
}

void* work(void* which) {
  Worker& self = *(Worker*)which;
  for (int seen = 0;;) {
    const auto is_called = [&] { return read(self.calls) != seen; };
    const long spin = read(pool->alone_for) > ALONE_FIRST ? SPIN_BUSY : *pool->given.patience * MICROSECOND;
    if (!spun(spin, is_called)) self.bed.sleep_until(is_called);
    allow_all_cores(self);
    seen = read(self.calls);  // before it looks for work: a call that comes later counts
    while (run_next()) {}
  }
}

bool is_started(pthread_t& thread, void* (*run)(void*), void* argument) {
  pthread_attr_t detached;
  sigset_t all, before;
  sigfillset(&all);  // signals are for the program's own threads, but for those of a crash
  for (int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, crash);
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool has_failed = pthread_create(&thread, &detached, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&detached);
  return !has_failed;
}

// Whether there are as many workers as this, new ones among them.
bool has_workers(int wanted) {
  while (pool->workers < wanted && pool->workers < MOST_WORKERS) {
    Worker& next = pool->worker[pool->workers];
    if (!is_started(next.thread, work, &next)) break;
    pool->workers++;
  }
  return pool->workers >= wanted;
}

// Whether this many threads can be had: OpenMP would end the program if they cannot.
bool has_room(int threads) {
  struct Probe {
    Bed bed;
    int is_over = 0;
  } probe;
  pthread_t started[MOST_CROWD];
  int count = 0;
  const auto wait = [](void* which) -> void* {
    Probe& probe = *(Probe*)which;
    probe.bed.sleep_until([&] { return read(probe.is_over) != 0; });
    return nullptr;
  };
  while (count < threads && !pthread_create(&started[count], nullptr, wait, &probe)) count++;
  write(probe.is_over, 1);
  probe.bed.wake();
  for (int i = 0; i < count; i++) pthread_join(started[i], nullptr);
  return count == threads;
}

void* keep_crowd(void* change) {
  const int threads = pool->given.cores() + 1;
  if (threads > MOST_CROWD || !has_room(threads)) return nullptr;  // torch's threads go on spinning then
  pool->given.parallel([](void*) {}, nullptr, threads, 0);
  pool->crowd.bed.sleep_until([&] { return read(pool->crowd.changes) != (uint32_t)(uintptr_t)change; });
  return nullptr;  // its team ends with it
}

void change_crowd() {
  Crowd& crowd = pool->crowd;
  pthread_t thread;
  write(crowd.changes, crowd.changes + 1);
  if (!crowd.is_there()) crowd.bed.wake();
  else if (!is_started(thread, keep_crowd, (void*)(uintptr_t)crowd.changes)) write(crowd.changes, crowd.changes + 1);
}

// Whether kernels use torch's threads now: where torch has several, and ours have not just been needed.
bool uses_openmp(long time) {
  return pool->given.parallel && !pool->crowd.is_there() && time > pool->met + SOON && pool->given.most_threads() > 1;
}

void wait_for_others() {
  const auto is_done = [] { return read(pool->left) == 0; };
  if (!spun(SPIN_INSIDE, is_done)) pool->bed.sleep_until(is_done);
}

// A member of an OpenMP team.
void join(void*) {
  if (pthread_equal(pthread_self(), pool->caller)) return run_as_caller();
  while (run_next()) {}
}

// Threads that have to meet are ours: those of OpenMP may be on one core after a pause, where one spins at the end of the
// region, and the other waits for the core until the system takes it away, for milliseconds.
void run_with_others(int shares, bool together, long time) {
  if (together) pool->met = time;
  else if (uses_openmp(time)) {
    pool->given.parallel(join, nullptr, shares, 0);
    return wait_for_others();  // one of ours, late from an earlier call, may have taken a share
  }
  has_workers(shares - 1);  // fewer will do
  for (int i = 0; i < shares - 1 && i < pool->workers; i++) call(pool->worker[i]);
  run_as_caller();
  wait_for_others();
}

// Whether others were too late, or all slower than the caller would have been alone. Of threads that meet, only the second
// time in a row counts: they may have been asleep.
bool has_lost(int shares, bool together, long begin, long end) {
  if (together) {
    const bool has_waited = pool->callers_wait + end - pool->callers_end > (end - begin) / 2, is_second = pool->has_waited;
    pool->has_waited = has_waited && !is_second;
    return has_waited && is_second;
  }
  const long mine = pool->callers_shares, alone = mine ? (pool->callers_end - begin) / mine * shares : end - begin;
  return end - begin > alone + alone / 8 + MARGIN || (mine == shares && end - begin > LATE);
}

// A crowd comes with the second disturbance in a row, or the third of several, and goes with the first call after a while
// without any: after a longer one if it had to come back soon.
void learn_of_crowd(bool is_disturbed, long time) {
  Crowd& crowd = pool->crowd;
  if (!pool->given.cores) return;
  crowd.disturbances = is_disturbed ? crowd.disturbances + 8 : crowd.disturbances ? crowd.disturbances - 1 : 0;
  if (crowd.is_there() && is_disturbed) crowd.until = time + crowd.lasts, crowd.disturbances = 0;
  else if (crowd.is_there() && time > crowd.until && pool->alone_for == ALONE_FIRST) change_crowd();
  else if (!crowd.is_there() && crowd.disturbances >= 16) {
    const bool is_again = time < crowd.until + crowd.lasts;
    crowd.lasts = !is_again ? CROWDED_FIRST : crowd.lasts < CROWDED_MOST ? crowd.lasts * 2 : CROWDED_MOST;
    crowd.until = time + crowd.lasts, crowd.disturbances = 0;
    change_crowd();
  }
}

void learn(int shares, bool together, long begin, long end) {
  const bool is_lost = has_lost(shares, together, begin, end), waits = pool->callers_wait > (end - begin) / 4;
  learn_of_crowd(together ? waits && pool->callers_longest > DISTURBED : is_lost, end);
  if (is_lost) pool->alone_until = end + pool->alone_for;
  const long next = is_lost ? pool->alone_for * 2 : pool->alone_for - pool->alone_for / 16;
  write(pool->alone_for, next < ALONE_FIRST ? ALONE_FIRST : next > ALONE_MOST ? ALONE_MOST : next);
}

// The threads of a process do not exist in one that it forks. GNU's OpenMP runtime would wait for its own there.
void begin_again() {
  const Given given{pool->given.patience, nullptr, nullptr, nullptr};
  new (pool) Pool;
  pool->given = given;
}

}  // namespace

bool run_shares(int shares, Meeting meeting, Share* run, void* context) {
  const bool together = meeting != Meeting::NONE;
  // Another thread of the program may have the pool.
  const bool waits = meeting == Meeting::NEEDED;
  const bool has_pool = waits ? !pthread_mutex_lock(&pool->in_use) : !pthread_mutex_trylock(&pool->in_use);
  const long begin = now();
  const bool is_alone = !has_pool || (begin < pool->alone_until && meeting != Meeting::NEEDED);
  if (is_alone || (together && !has_workers(shares - 1))) {
    if (has_pool) pthread_mutex_unlock(&pool->in_use);
    for (int share = 0; !together && share < shares; share++) run(context, share);
    return !together;
  }
  const uint64_t number = (pool->ticket >> 32) + 1;
  __atomic_store_n(&pool->job.run, run, __ATOMIC_RELAXED);
  __atomic_store_n(&pool->job.context, context, __ATOMIC_RELAXED);
  __atomic_store_n(&pool->job.shares, (uint32_t)shares, __ATOMIC_RELAXED);
  pool->callers_wait = pool->callers_longest = 0, pool->caller = pthread_self(), pool->callers_shares = 0;
  write(pool->left, (uint32_t)shares);
  write(pool->ticket, number << 32);
  run_with_others(shares, together, begin);
  write(pool->ticket, number << 32 | CLOSED);
  const long end = now();
  learn(shares, together, begin, end);
  pthread_mutex_unlock(&pool->in_use);
  return true;
}

void meet(const Slab& slab) {
  if (slab.threads == 1) return;
  Barrier& barrier = *slab.barrier;
  const int round = read(barrier.round);
  if (__atomic_add_fetch(&barrier.arrived, 1, __ATOMIC_SEQ_CST) == slab.threads) {  // the last one
    write(barrier.arrived, 0);
    write(barrier.round, round + 1);
    pool->bed.wake();
    return;
  }
  const auto is_over = [&] { return read(barrier.round) != round; };
  const long begin = now();
  if (!spun(SPIN_INSIDE, is_over)) pool->bed.sleep_until(is_over);
  if (!pthread_equal(pthread_self(), pool->caller)) return;
  const long waited = now() - begin;
  pool->callers_wait += waited;
  if (waited > pool->callers_longest) pool->callers_longest = waited;
}

extern "C" void use_pool(Pool* shared) { pool = shared; }

// Of the first kernel that is loaded: all others are told to use it. Null if there is no memory.
extern "C" Pool* new_pool(const Given* given) {
  void* const memory = aligned_alloc(alignof(Pool), sizeof(Pool));
  if (!memory) return nullptr;
  pool = new (memory) Pool;
  pool->given = *given;
  pthread_atfork(nullptr, nullptr, begin_again);
  return pool;
}

// Functions of a kernel, called with tensors: addresses of inputs, new arrays, and results that are views of these, as
// settled beforehand (calls.py). In Python this took as long as the kernel of a small batch: after a kernel the caches hold
// none of Python's code. (Compiled together with products.cpp.)

namespace {

constexpr int MOST_ARRAYS = 8;  // as in calls.py

struct Pointer {
  int64_t source;  // an input, or a new array after these; -1: `offset` is the address
  int64_t offset;  // in bytes
};

struct Stage {
  void* function;
  int64_t is_checked;  // whether it returns 0 unless there is no memory; the other functions return a size
  int64_t pointers;
  const Pointer* pointer;
  const long* sizes;
};

struct Array {
  int64_t floats;
  int64_t is_large;  // comes from the pool of buffers
};

struct Result {
  int64_t array;  // -1: None
  int64_t dim, sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS], offset;
};

}  // namespace

struct Call {
  const Torch* torch;
  Object *none, *allocate;  // allocate(floats): a tensor from the pool of buffers
  int64_t inputs, arrays, stages, results;
  const Expected* input;
  const Array* array;
  const Stage* stage;
  const Result* result;
};

namespace {

struct Calling {
  const Call& c;
  const Torch& torch;
  char** places;  // of inputs, then of new arrays
  Object* objects[MOST_ARRAYS] = {};  // arrays from the pool
  Tensor* tensors[MOST_ARRAYS] = {};  // the others

  Calling(const Call& call, char** places) : c(call), torch(*call.torch), places(places) {}
  ~Calling() {
    for (int64_t i = 0; i < c.arrays; i++) {
      Py_DecRef(objects[i]);
      if (tensors[i]) torch.free(tensors[i]);
    }
  }

  const Tensor* array(int64_t i) const { return tensors[i] ? tensors[i] : tensor_of(torch, objects[i]); }

  // The number of inputs that are as expected, up to the first that is not.
  int64_t read(Object* const* arguments) {
    for (int64_t i = 0; i < c.inputs; i++) {
      places[i] = nullptr;
      if (arguments[i] == c.none ? !c.input[i].is_optional : !reads(torch, arguments[i], c.input[i], places[i])) return i;
    }
    return c.inputs;
  }

  bool allocate() {
    for (int64_t i = 0; i < c.arrays; i++) {
      const int64_t one = 1, floats = c.array[i].floats;
      if (c.array[i].is_large) {
        const Reference number = PyLong_FromLongLong(floats);
        objects[i] = PyObject_CallFunctionObjArgs(c.allocate, number.object, nullptr);
        if (!objects[i]) return false;
      } else if (torch.empty(1, &floats, &one, torch.float32, torch.cpu, 0, &tensors[i])) {
        tensors[i] = nullptr;
        return false;
      }
      if (torch.data_ptr(array(i), (float**)&places[c.inputs + i]) || (floats > 0 && !places[c.inputs + i])) return false;
    }
    return true;
  }

  bool run(const Stage& stage) const {
    void** const pointers = (void**)__builtin_alloca(stage.pointers * sizeof(void*));
    for (int64_t i = 0; i < stage.pointers; i++) {
      const Pointer& p = stage.pointer[i];
      char* const base = p.source < 0 ? (char*)nullptr : places[p.source];
      pointers[i] = p.source < 0 || base ? base + p.offset : nullptr;
    }
    if (stage.is_checked) return ((int (*)(void* const*, const long*))stage.function)(pointers, stage.sizes) == 0;
    ((long (*)(void* const*, const long*))stage.function)(pointers, stage.sizes);
    return true;
  }

  // Other threads of Python may run meanwhile.
  bool run() const {
    void* const thread = PyEval_SaveThread();
    bool is_done = true;
    for (int64_t i = 0; is_done && i < c.stages; i++) is_done = run(c.stage[i]);
    PyEval_RestoreThread(thread);
    return is_done;
  }

  Object* results() const {
    Reference made = PyTuple_New(c.results);
    for (int64_t i = 0; made.object && i < c.results; i++) {
      const Result& r = c.result[i];
      Tensor* tensor;
      if (r.array < 0) Py_IncRef(c.none);
      else if (torch.view(array(r.array), r.dim, r.sizes, r.strides, r.offset, &tensor)) return nullptr;
      Object* const object = r.array < 0 ? c.none : wrapped(torch, tensor);
      if (!object || PyTuple_SetItem(made.object, i, object)) return nullptr;
    }
    return made.release();
  }
};

Object* call_with(Object* self, Object* const* arguments, intptr_t count) {
  const Call& c = *(const Call*)PyCapsule_GetPointer(self, nullptr);
  Calling calling(c, (char**)__builtin_alloca((c.inputs + c.arrays) * sizeof(char*)));
  if (count != c.inputs) {
    PyErr_SetString(PyExc_RuntimeError, "a kernel was called with another number of tensors");
    return nullptr;
  }
  const int64_t read = calling.read(arguments);
  if (read < count) return PyLong_FromLongLong(read);
  if (calling.allocate()) {
    if (!calling.run()) {
      Py_IncRef(c.none);
      return c.none;
    }
    if (Object* results = calling.results()) return results;
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "torch could not make the tensors of a kernel's results");
  return nullptr;
}

Method calling_method = {"call", call_with, FASTCALL,
                         "(inputs...) -> results, None if there is no memory, or the number of an input that is refused"};

}  // namespace

extern "C" Object* calling(Call* call, Object* owner) { return function_of(&calling_method, call, owner); }

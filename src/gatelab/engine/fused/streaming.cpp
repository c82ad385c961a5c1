// One step of a stream as a function that Python calls: (training, x, state) -> (output, new state), or None if anything
// differs from what was prepared (streaming.py). Written in C++ because the checks in Python took several times as long as
// the step itself.
//
// Tensors are read through DLPack's exchange interface, and Python through its stable one. What is needed of both is
// declared here: Python's headers are not on every machine that has a compiler.
#include "runtime.hpp"

// ---- Python ----------------------------------------------------------------------------------------------------------

struct Object;  // PyObject

extern "C" {
typedef Object* Function(Object* self, Object* const* arguments, intptr_t count);
struct Method {  // PyMethodDef
  const char* name;
  Function* function;
  int flags;
  const char* doc;
};
Object* PyCFunction_NewEx(Method*, Object* self, Object* module);
Object* PyCapsule_New(void*, const char* name, void* destructor);
void* PyCapsule_GetPointer(Object*, const char* name);
Object* PyDict_GetItemWithError(Object*, Object* key);  // borrowed
Object* PyObject_CallFunctionObjArgs(Object* function, ...);
Object* PyObject_GetAttr(Object*, Object* name);
Object* PyObject_Type(Object*);
intptr_t PySequence_Size(Object*);
Object* PySequence_GetItem(Object*, intptr_t);
Object* PyTuple_New(intptr_t);
int PyTuple_SetItem(Object*, intptr_t, Object*);  // takes the reference
Object* PyTuple_Pack(intptr_t, ...);
long PyLong_AsLong(Object*);
void PyErr_Clear();
void Py_IncRef(Object*);
void Py_DecRef(Object*);
}

namespace {

constexpr int FASTCALL = 0x80;

// A reference that is given back.
struct Reference {
  Object* object;
  Reference(Object* object = nullptr) : object(object) {}
  Reference(const Reference&) = delete;
  ~Reference() { Py_DecRef(object); }  // of null: nothing
  Object* release() {
    Object* released = object;
    object = nullptr;
    return released;
  }
};

// ---- DLPack ----------------------------------------------------------------------------------------------------------

struct View {  // DLTensor
  float* data;
  int32_t device, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t *shape, *strides;
  uint64_t offset;
};

struct Exchange {  // DLPackExchangeAPI, of major version 1
  uint32_t major, minor;
  const Exchange* previous;
  void *allocate, *import, *export_;
  int (*view)(Object*, View*);  // not an error only if 0
};

constexpr int CPU = 1, FLOAT = 2;

// Whether a tensor consists of floats in the CPU's memory, one after the other.
bool is_plain(const View& view) {
  int64_t expected = 1;
  for (int i = view.ndim - 1; i >= 0; expected *= view.shape[i--])
    if (view.strides[i] != expected && view.shape[i] != 1) return false;
  return view.device == CPU && view.code == FLOAT && view.bits == 32 && view.lanes == 1 && view.offset == 0;
}

// ---- what was prepared -----------------------------------------------------------------------------------------------

struct Parameter {
  Object *owner, *name, *tensor;  // where its module keeps it
  const float* place;
  long version;
};

struct Layer {
  Step* step;
  void* const* fixed;
  long* sizes;
  const Sampled* sampled;
};

}  // namespace

struct Stream {
  const Exchange* exchange;
  Object *tensor_type, *is_grad_enabled, *empty_like, *false_, *none, *version, *requires_grad;
  Object *training, *training_name;  // the value that modules have, and its name in their dictionaries
  Object *output, *state;  // tensors like these are made
  long ndim, shape[2];  // of x; a state has one dimension more, and a first of `layers`
  long hidden_size, states, layers, parameters, residual;
  const Layer* layer;
  Object* const* module;  // the dictionary of each layer's module
  const Parameter* parameter;
};

namespace {

struct Stepping {
  const Stream& s;
  bool grad;

  bool is_tensor(Object* object) const {
    const Reference type = PyObject_Type(object);
    return type.object == s.tensor_type;
  }

  bool read(Object* tensor, View& view) const { return s.exchange->view(tensor, &view) == 0 && is_plain(view); }

  // Whether no gradient is wanted of it.
  bool is_constant(Object* tensor) const {
    if (!grad) return true;
    const Reference requires_grad = PyObject_GetAttr(tensor, s.requires_grad);
    return requires_grad.object == s.false_;
  }

  bool is_input(Object* x, View& view) const {
    if (!is_tensor(x) || !read(x, view) || view.ndim != s.ndim || !is_constant(x)) return false;
    for (int i = 0; i < s.ndim; i++)
      if (view.shape[i] != s.shape[i]) return false;
    return true;
  }

  bool is_state(Object* state, View& view) const {
    if (!is_tensor(state) || !read(state, view) || view.ndim != s.ndim + 1 || !is_constant(state)) return false;
    for (int i = 1; i < s.ndim; i++)
      if (view.shape[i] != s.shape[i - 1]) return false;
    return view.shape[0] == s.layers && view.shape[s.ndim] == s.hidden_size;
  }

  // Torch counts changes, unless somebody changes `p.data`, which may also move it.
  bool is_unchanged(const Parameter& p) const {
    View view;
    if (PyDict_GetItemWithError(p.owner, p.name) != p.tensor) return false;
    if (!read(p.tensor, view) || view.data != p.place || !is_constant(p.tensor)) return false;
    const Reference version = PyObject_GetAttr(p.tensor, s.version);
    return version.object && PyLong_AsLong(version.object) == p.version;
  }

  // A new tensor like another one. Under a mode it may be of another kind.
  Object* made(Object* like, float*& data) const {
    Reference tensor = PyObject_CallFunctionObjArgs(s.empty_like, like, nullptr);
    View view;
    if (!tensor.object || !is_tensor(tensor.object) || !read(tensor.object, view)) return nullptr;
    data = view.data;
    return tensor.release();
  }

  Object* run(Object* training, Object* x, Object* state) const {
    constexpr int MOST = 16;
    if (training != s.training || s.states > MOST) return nullptr;
    for (long i = 0; i < s.layers; i++)
      if (PyDict_GetItemWithError(s.module[i], s.training_name) != training) return nullptr;
    View input, view;
    if (!is_input(x, input)) return nullptr;
    for (long i = 0; i < s.parameters; i++)
      if (!is_unchanged(s.parameter[i])) return nullptr;

    const float* old[MOST] = {};
    if (state == s.none) {
    } else if (s.states == 1 && is_tensor(state)) {
      if (!is_state(state, view)) return nullptr;
      old[0] = view.data;
    } else {
      if (is_tensor(state) || PySequence_Size(state) != s.states) return nullptr;
      for (long k = 0; k < s.states; k++) {
        const Reference one = PySequence_GetItem(state, k);
        if (!one.object || (one.object != s.none && !is_state(one.object, view))) return nullptr;
        old[k] = one.object == s.none ? nullptr : view.data;  // the sequence keeps it
      }
    }

    float *out, *next[MOST];
    Reference output = made(s.output, out), finals = nullptr;
    if (!output.object) return nullptr;
    if (s.states == 1) {
      finals.object = made(s.state, next[0]);
    } else {
      finals.object = PyTuple_New(s.states);
      for (long k = 0; finals.object && k < s.states; k++) {
        Object* one = made(s.state, next[k]);
        if (!one) return nullptr;
        PyTuple_SetItem(finals.object, k, one);
      }
    }
    if (!finals.object || !go(input.data, out, old, next)) return nullptr;
    return PyTuple_Pack(2, output.object, finals.object);
  }

  // The output of a layer is its first state; where connections are residual, it is added up in the output.
  bool go(const float* x, float* out, const float** old, float** next) const {
    const long floats = s.hidden_size * (s.ndim == 2 ? s.shape[0] : 1);
    for (long l = 0; l < s.layers; l++) {
      const Layer& layer = s.layer[l];
      const bool adds = s.residual && l > 0, is_last = l == s.layers - 1;
      if (fingerprint(layer.sampled) != layer.sampled->expected) return false;
      if (layer.step(layer.fixed, layer.sizes, x, is_last && !adds ? out : nullptr, old, next)) return false;
      if (adds)
        for (long i = 0; i < floats; i++) out[i] = next[0][i] + x[i];
      x = adds ? out : next[0];
      for (long k = 0; k < s.states; k++) {
        next[k] += floats;
        if (old[k]) old[k] += floats;
      }
    }
    return true;
  }
};

Object* call(Object* self, Object* const* arguments, intptr_t count) {
  const Stream& s = *(const Stream*)PyCapsule_GetPointer(self, nullptr);
  if (count == 3) {
    const Reference grad = PyObject_CallFunctionObjArgs(s.is_grad_enabled, nullptr);
    const Stepping stepping{s, grad.object != s.false_};
    if (Object* result = stepping.run(arguments[0], arguments[1], arguments[2])) return result;
  }
  PyErr_Clear();
  Py_IncRef(s.none);
  return s.none;
}

Method method = {"step", call, FASTCALL, "(training, x, state) -> (output, new state), or None"};

}  // namespace

extern "C" Object* stepping(Stream* stream) {
  const Reference self = PyCapsule_New(stream, nullptr, nullptr);
  return self.object ? PyCFunction_NewEx(&method, self.object, nullptr) : nullptr;
}

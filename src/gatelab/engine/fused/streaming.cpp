// One step of a stream as a function that Python calls: (x, state) -> (output, new state), or None if anything
// differs from what was prepared (streaming.py). In Python the checks took several times as long as the step itself.
// (Compiled together with products.cpp.)

namespace {

// A function without arguments, and what it returns as long as torch does nothing but compute.
struct Condition {
  Object *function, *usual;
};

// A dictionary, and how many entries it had: hooks, layers.
struct Counted {
  Object* entries;
  int64_t count;
};

struct Layer {
  Step* step;
  void* const* fixed;
  long* sizes;
  const Sampled* sampled;
};

}  // namespace

struct Stream {
  const Torch* torch;
  Object *is_neg, *none, *false_, *tuple_type, *list_type, *requires_grad;
  int64_t conditions, dictionaries;
  const Condition* condition;
  const Counted* dictionary;
  Expected x, output, state;
  int64_t layers, states, parameters, residual, floats;  // floats: of one layer's state
  const Layer* layer;
  const Parameter* parameter;  // and whatever else has to be where it was
};

namespace {

constexpr int MOST_STATES = 16;

struct Stepping {
  const Stream& s;
  const Torch& torch;
  bool grad;

  bool is_of(Object* object, Object* type) const {
    const Reference actual = PyObject_Type(object);
    return actual.object == type;
  }

  // Whether torch traces, which only it can do, or there are hooks to call.
  bool is_watched() const {
    for (int64_t i = 0; i < s.dictionaries; i++)
      if (PyDict_Size(s.dictionary[i].entries) != s.dictionary[i].count) return true;
    for (int64_t i = 0; i < s.conditions; i++) {
      const Reference value = PyObject_CallNoArgs(s.condition[i].function);
      if (value.object != s.condition[i].usual) return true;
    }
    return false;
  }

  // Whether no gradient is wanted of it.
  bool is_constant(Object* object) const {
    if (!grad) return true;
    const Reference requires_grad = PyObject_GetAttr(object, s.requires_grad);
    return requires_grad.object == s.false_;
  }

  // Whether the value in memory has the other sign, as in `z.conj().imag`, which is contiguous if it is one number.
  bool is_negated(Object* object, const Expected& shape) const {
    for (int i = 0; i < shape.dim; i++)
      if (shape.sizes[i] != 1) return false;
    const Reference negated = PyObject_CallFunctionObjArgs(s.is_neg, object, nullptr);
    return negated.object != s.false_;
  }

  bool fits(Object* object, const Expected& expected, const float*& data) const {
    return reads(torch, object, expected, (char*&)data) && !is_negated(object, expected) && is_constant(object);
  }

  // A new tensor.
  Object* made(const Expected& shape, float*& data) const {
    Tensor* tensor;
    if (torch.empty(shape.dim, shape.sizes, shape.strides, torch.float32, torch.cpu, 0, &tensor)) return nullptr;
    if (torch.data_ptr(tensor, &data) == 0 && data) return wrapped(torch, tensor);
    torch.free(tensor);
    return nullptr;
  }

  // New states: one, or a tuple of several.
  Object* finals(float** data) const {
    if (s.states == 1) return made(s.state, data[0]);
    Reference several = PyTuple_New(s.states);
    for (int64_t k = 0; several.object && k < s.states; k++) {
      Object* one = made(s.state, data[k]);
      if (!one || PyTuple_SetItem(several.object, k, one)) return nullptr;
    }
    return several.release();
  }

  // The states that were given, in references that keep them; null for zeros. Sequences of other types may make their items.
  bool read(Object* state, const float** old, Reference* kept) const {
    if (state == s.none) return true;
    if (s.states == 1 && fits(state, s.state, old[0])) return true;
    if ((!is_of(state, s.tuple_type) && !is_of(state, s.list_type)) || PySequence_Size(state) != s.states) return false;
    for (int64_t k = 0; k < s.states; k++) {
      kept[k].object = PySequence_GetItem(state, k);
      if (!kept[k].object || !fits(kept[k].object, s.state, old[k])) return false;
    }
    return true;
  }

  Object* run(Object* x, Object* state) const {
    const float *input, *old[MOST_STATES] = {};
    Reference kept[MOST_STATES];
    if (is_watched() || !fits(x, s.x, input) || !read(state, old, kept)) return nullptr;
    for (int64_t i = 0; i < s.parameters; i++) {
      const Parameter& p = s.parameter[i];
      if (look_at(torch, p) != SAME || (p.implementation && !is_constant(p.object))) return nullptr;
    }

    float *out, *next[MOST_STATES];
    const Reference output = made(s.output, out), states = finals(next);
    if (!output.object || !states.object || !go(input, out, old, next)) return nullptr;
    return PyTuple_Pack(2, output.object, states.object);
  }

  // The output of a layer is its first state; where connections are residual, it is added up in the output.
  bool go(const float* x, float* out, const float** old, float** next) const {
    for (int64_t l = 0; l < s.layers; l++) {
      const Layer& layer = s.layer[l];
      const bool adds = s.residual && l > 0, is_last = l == s.layers - 1;
      if (fingerprint(layer.sampled) != layer.sampled->expected) return false;
      if (layer.step(layer.fixed, layer.sizes, x, is_last && !adds ? out : nullptr, old, next)) return false;
      for (int64_t i = 0; adds && i < s.floats; i++) out[i] = next[0][i] + x[i];
      x = adds ? out : next[0];
      for (int64_t k = 0; k < s.states; k++) {
        next[k] += s.floats;
        if (old[k]) old[k] += s.floats;
      }
    }
    return true;
  }
};

Object* call(Object* self, Object* const* arguments, intptr_t count) {
  const Stream& s = *(const Stream*)PyCapsule_GetPointer(self, nullptr);
  if (count == 2) {
    const Stepping stepping{s, *s.torch, s.torch->is_grad_enabled()};
    if (Object* result = stepping.run(arguments[0], arguments[1])) return result;
  }
  PyErr_Clear();
  Py_IncRef(s.none);
  return s.none;
}

Method method = {"step", call, FASTCALL, "(x, state) -> (output, new state), or None"};

}  // namespace

extern "C" Object* stepping(Stream* stream, Object* owner) { return function_of(&method, stream, owner); }

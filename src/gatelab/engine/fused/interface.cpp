// What C++ uses of Python and of torch. Of Python's stable interface only what is needed is declared: its headers are not on
// every machine that has a compiler. Torch's functions come as pointers (interface.py), most of them from its stable C
// interface ("aoti_torch_…"), which takes a pointer to an at::Tensor. (Compiled together with products.cpp.)

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
int PyDict_Next(Object*, intptr_t* position, Object** key, Object** value);  // borrowed
Object* PyObject_CallFunctionObjArgs(Object* function, ...);
Object* PyObject_GetAttr(Object*, Object* name);
Object* PyObject_Type(Object*);
intptr_t PySequence_Size(Object*);
Object* PySequence_GetItem(Object*, intptr_t);
Object* PyTuple_New(intptr_t);
int PyTuple_SetItem(Object*, intptr_t, Object*);  // takes the reference
Object* PyTuple_Pack(intptr_t, ...);
Object* PyLong_FromLongLong(long long);
void* PyEval_SaveThread();
void PyEval_RestoreThread(void*);
void PyErr_Clear();
Object* PyErr_Occurred();  // borrowed
void PyErr_SetString(Object* type, const char* message);
extern Object* PyExc_RuntimeError;
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

// ---- torch -----------------------------------------------------------------------------------------------------------

struct Tensor;  // at::Tensor

// Torch's functions. Those that return an int return 0 unless there was an error.
struct Torch {
  bool (*is_grad_enabled)();
  int (*data_ptr)(const Tensor*, float**);
  int (*dim)(const Tensor*, int64_t*);
  int (*sizes)(const Tensor*, const int64_t**);
  int (*numel)(const Tensor*, int64_t*);
  int (*is_contiguous)(const Tensor*, bool*);
  int (*dtype)(const Tensor*, int32_t*);
  int (*device)(const Tensor*, int32_t*);
  int (*layout)(const Tensor*, int32_t*);
  int (*empty)(int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device, int32_t index,
               Tensor**);
  int (*view)(const Tensor*, int64_t dim, const int64_t* sizes, const int64_t* strides, int64_t offset, Tensor**);
  int (*free)(Tensor*);
  Object* (*wrap)(const Tensor&);  // a new object of Python for it
  int64_t (*version)(const Tensor*);
  int64_t float32, cpu, strided;  // codes
  int64_t offset;  // of the at::Tensor in its object
};

const Tensor* tensor_of(const Torch& torch, Object* object) { return (const Tensor*)((const char*)object + torch.offset); }

// A tensor as an object of Python, which has a reference of its own; null if there was an error.
Object* wrapped(const Torch& torch, Tensor* tensor) {
  Object* object = nullptr;
  try {
    object = torch.wrap(*tensor);
  } catch (...) {
  }
  torch.free(tensor);
  return object;
}

Object* function_of(Method* method, void* self) {
  const Reference capsule = PyCapsule_New(self, nullptr, nullptr);
  return capsule.object ? PyCFunction_NewEx(method, capsule.object, nullptr) : nullptr;
}

}  // namespace

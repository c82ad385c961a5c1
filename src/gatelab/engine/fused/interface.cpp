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
intptr_t PyDict_Size(Object*);
int PyDict_Next(Object*, intptr_t* position, Object** key, Object** value);  // borrowed
Object* PyObject_CallFunctionObjArgs(Object* function, ...);
Object* PyObject_CallNoArgs(Object* function);
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
  ~Reference() {
    if (object) Py_DecRef(object);
  }
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
  int (*strides)(const Tensor*, const int64_t**);
  int (*numel)(const Tensor*, int64_t*);
  int (*is_contiguous)(const Tensor*, bool*);
  int (*storage_size)(const Tensor*, int64_t*);  // in bytes
  int (*storage_offset)(const Tensor*, int64_t*);  // in values
  int (*dtype)(const Tensor*, int32_t*);
  int (*device)(const Tensor*, int32_t*);
  int (*layout)(const Tensor*, int32_t*);
  int (*empty)(int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device, int32_t index,
               Tensor**);
  int (*view)(const Tensor*, int64_t dim, const int64_t* sizes, const int64_t* strides, int64_t offset, Tensor**);
  int (*free)(Tensor*);
  Object* (*wrap)(const Tensor&);  // a new object of Python for it
  int64_t (*version)(const Tensor*);
  int64_t float32, int64, boolean, cpu, strided;  // codes
  int64_t offset;  // of the at::Tensor in its object
  Object *tensor_type, *parameter_type;
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

// A function of Python that keeps `owner`, the object to which `self` belongs.
Object* function_of(Method* method, void* self, Object* owner) {
  const Reference capsule = PyCapsule_New(self, nullptr, nullptr);
  return capsule.object ? PyCFunction_NewEx(method, capsule.object, owner) : nullptr;
}

// ---- what a kernel reads -----------------------------------------------------------------------------------------------

constexpr int MOST_DIMENSIONS = 4;  // as in expected.py

struct Expected {
  int64_t dtype, dim, sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
  int64_t extent;  // values in memory from the first to the last
  int64_t itemsize, is_optional;
  int64_t most;  // of integers, which are 0 to this; -1: any value
};

// Whether an object is the tensor that is expected, and where its values are. Its type is looked at first: only then does the
// object have an at::Tensor where we look for it, and that is not a tensor of another kind behind a subclass.
bool reads(const Torch& torch, Object* object, const Expected& e, char*& place) {
  const Reference type = PyObject_Type(object);
  if (type.object != torch.tensor_type && type.object != torch.parameter_type) return false;
  const Tensor* tensor = tensor_of(torch, object);
  int32_t layout, device, dtype;
  int64_t dim, offset = 0, bytes;
  const int64_t *sizes, *strides;
  if (torch.layout(tensor, &layout) || layout != torch.strided) return false;
  if (torch.device(tensor, &device) || device != torch.cpu || torch.dtype(tensor, &dtype) || dtype != e.dtype) return false;
  if (torch.dim(tensor, &dim) || dim != e.dim || torch.sizes(tensor, &sizes)) return false;
  for (int64_t i = 0; i < dim; i++)
    if (sizes[i] != e.sizes[i]) return false;
  if (e.extent > 0) {
    if (torch.strides(tensor, &strides)) return false;
    for (int64_t i = 0; i < dim; i++)
      if (sizes[i] > 1 && strides[i] != e.strides[i]) return false;
    if (torch.storage_offset(tensor, &offset) || torch.storage_size(tensor, &bytes)) return false;
    if ((offset + e.extent) * e.itemsize > bytes) return false;  // its storage was freed, or made smaller
  }
  if (torch.data_ptr(tensor, (float**)&place)) return false;
  // Tensors that stand for others have a size and no memory: then this is a distance from null.
  if (e.extent > 0 && place == (char*)nullptr + offset * e.itemsize) return false;
  for (int64_t i = 0; e.most >= 0 && i < e.extent; i++)
    if (((const int64_t*)place)[i] < 0 || ((const int64_t*)place)[i] > e.most) return false;
  return true;
}

}  // namespace

// Whether parameters are still those from which something was prepared (weights.py). (Compiled together with products.cpp.)

namespace {

// A parameter, or a module that holds some: then there is nothing after `object`.
struct Parameter {
  Object *owner, *name, *object;  // where its module keeps it
  intptr_t position;  // in the order of that dictionary, as long as nothing was removed from it
  void* implementation;  // what the at::Tensor points to; `torch.utils.swap_tensors` changes it
  const float* place;
  int64_t numel, version;
};

enum Finding { SAME, CHANGED, OTHERS };  // as in weights.py

// Whether its module still has it. Looking for the name takes several times as long as looking where it was; if the dictionary
// has changed, something else may be there, or nothing.
bool is_kept(const Parameter& p) {
  Object *name, *object;
  intptr_t position = p.position;
  if (PyDict_Next(p.owner, &position, &name, &object) && name == p.name) return object == p.object;
  return PyDict_GetItemWithError(p.owner, p.name) == p.object;
}

// Torch counts changes, unless somebody changes `p.data`, which may also move it. (`p.data = p.data.t()` does not.)
Finding look_at(const Torch& torch, const Parameter& p) {
  if (!is_kept(p)) return OTHERS;
  if (!p.implementation) return SAME;
  const Tensor* tensor = tensor_of(torch, p.object);
  if (*(void* const*)tensor != p.implementation) return OTHERS;
  float* place;
  bool is_contiguous;
  if (torch.data_ptr(tensor, &place) || place != p.place) return OTHERS;
  if (torch.is_contiguous(tensor, &is_contiguous) || !is_contiguous) return OTHERS;
  int64_t numel;
  int32_t dtype;
  if (torch.dtype(tensor, &dtype) || dtype != torch.float32) return OTHERS;
  if (torch.numel(tensor, &numel) || numel != p.numel) return OTHERS;
  return torch.version(tensor) == p.version ? SAME : CHANGED;
}

struct Watched {
  const Torch* torch;
  int64_t count;
  Parameter* parameter;
  Sampled* sampled;
};

}  // namespace

extern "C" int look(const Watched* watched) {
  Finding finding = SAME;
  for (int64_t i = 0; i < watched->count; i++) {
    const Finding one = look_at(*watched->torch, watched->parameter[i]);
    finding = one > finding ? one : finding;
  }
  PyErr_Clear();  // of a dictionary that lacks the name
  return finding == SAME && fingerprint(watched->sampled) != watched->sampled->expected ? CHANGED : finding;
}

extern "C" void remember(Watched* watched) {
  for (int64_t i = 0; i < watched->count; i++) {
    Parameter& p = watched->parameter[i];
    if (p.implementation) p.version = watched->torch->version(tensor_of(*watched->torch, p.object));
  }
  watched->sampled->expected = fingerprint(watched->sampled);
}

/* A pass and a type over the C API of the installed `mlir`, for contexts that it made. Python's limited API: one module
   serves all CPythons. */
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include "mlir-c/Bindings/Python/Interop.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/IR.h"
#include "mlir-c/Pass.h"
#include "mlir-c/Support.h"

#include <stdlib.h>
#include <string.h>

static MlirTypeID counting_pass_id;

static MlirWalkResult count(MlirOperation operation, void *sum) {
  (void)operation;
  ++*(int64_t *)sum;
  return MlirWalkResultAdvance;
}

static void run(MlirOperation operation, MlirExternalPass pass, void *attribute) {
  (void)pass;
  int64_t sum = 0;
  mlirOperationWalk(operation, count, &sum, MlirWalkPreOrder);
  MlirType type = mlirIntegerTypeGet(mlirOperationGetContext(operation), 64);
  mlirOperationSetAttributeByName(operation, mlirStringRefCreateFromCString(attribute),
                                  mlirIntegerAttrGet(type, sum));
}

/* A clone (one for each thread) has its own copy of the user data, which it frees. */
static void *clone(void *attribute) { return strdup(attribute); }
static void construct(void *attribute) { (void)attribute; }
static void destruct(void *attribute) { free(attribute); }

static PyObject *add_counting_pass(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  const char *attribute, *on;
  if (!PyArg_ParseTuple(arguments, "Oss:add_counting_pass", &capsule, &attribute, &on))
    return NULL;
  MlirPassManager manager = mlirPythonCapsuleToPassManager(capsule);
  if (mlirPassManagerIsNull(manager))
    return NULL;
  MlirExternalPassCallbacks callbacks = {construct, destruct, NULL, clone, run};
  MlirPass pass = mlirCreateExternalPass(counting_pass_id, mlirStringRefCreateFromCString("CountOperations"),
                                         mlirStringRefCreateFromCString("example-count-operations"),
                                         mlirStringRefCreateFromCString("Count operations into an attribute"),
                                         mlirStringRefCreateFromCString(on), 0, NULL, callbacks, strdup(attribute));
  if (*on)
    mlirOpPassManagerAddOwnedPass(mlirPassManagerGetNestedUnder(manager, mlirStringRefCreateFromCString(on)), pass);
  else
    mlirPassManagerAddOwnedPass(manager, pass);
  Py_RETURN_NONE;
}

static PyObject *vector_of(PyObject *self, PyObject *arguments) {
  (void)self;
  PyObject *capsule;
  long long size;
  if (!PyArg_ParseTuple(arguments, "OL:vector_of", &capsule, &size))
    return NULL;
  MlirType element = mlirPythonCapsuleToType(capsule);
  if (mlirTypeIsNull(element))
    return NULL;
  int64_t shape[] = {size};
  MlirLocation location = mlirLocationUnknownGet(mlirTypeGetContext(element));
  MlirType type = mlirVectorTypeGetChecked(location, 1, shape, element);
  if (mlirTypeIsNull(type))
    Py_RETURN_NONE;
  return mlirPythonTypeToCapsule(type);
}

static PyMethodDef methods[] = {
    {"add_counting_pass", add_counting_pass, METH_VARARGS, "add_counting_pass(pass_manager_capsule, attribute, on)"},
    {"vector_of", vector_of, METH_VARARGS, "vector_of(type_capsule, size) -> type_capsule | None"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) {
  counting_pass_id = mlirTypeIDAllocatorAllocateTypeID(mlirTypeIDAllocatorCreate());
  return PyModule_Create(&definition);
}

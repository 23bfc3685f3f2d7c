"""A thread of a C extension that completes what it is handed: tokens of a shared handle, or futures
by one call_soon_threadsafe each. Compiled against ringloop's headers, as other libraries are.

    extension.tokens(capsule, [token, ...])
    extension.calls(call_soon_threadsafe, [future.set_result, ...])

The caller keeps all of it alive until it is done.
"""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

SOURCE = r"""
#include <Python.h>
#include <ringloop/handle.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static ringloop_handle *handle;
static ringloop_token tokens[65536];
static PyObject *call, *arguments;
static Py_ssize_t count;

static void *serve(void *ignored) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (count == 0) pthread_cond_wait(&filled, &lock);
        if (handle) {
            for (Py_ssize_t i = 0; i < count; ++i)
                ringloop_handle_complete_int(handle, tokens[i], i);
        } else {
            for (Py_ssize_t i = 0; i < count; ++i) {  /* as without a bridge: the GIL for each */
                PyGILState_STATE state = PyGILState_Ensure();
                PyObject *done = PyObject_CallFunction(call, "OO", PyList_GetItem(arguments, i),
                                                       Py_None);
                if (!done) PyErr_WriteUnraisable(call);
                Py_XDECREF(done);
                PyGILState_Release(state);
            }
        }
        count = 0;
    }
    return NULL;
}
static PyObject *hand_over(Py_ssize_t number) {
    static pthread_t thread;
    if (!thread) pthread_create(&thread, NULL, serve, NULL);
    count = number;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    Py_RETURN_NONE;
}
static void take_lock(void) {
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&lock);
    Py_END_ALLOW_THREADS
}
static PyObject *complete_tokens(PyObject *self, PyObject *args) {
    PyObject *capsule, *list;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &list)) return NULL;
    take_lock();
    handle = ringloop_handle_of(capsule);
    for (Py_ssize_t i = 0; i < PyList_Size(list); ++i)
        tokens[i & 65535] = PyLong_AsUnsignedLongLong(PyList_GetItem(list, i));
    return hand_over(PyList_Size(list));
}
static PyObject *complete_calls(PyObject *self, PyObject *args) {
    PyObject *function, *list;
    if (!PyArg_ParseTuple(args, "OO", &function, &list)) return NULL;
    take_lock();
    handle = NULL;
    call = function;
    arguments = list;
    return hand_over(PyList_Size(list));
}
static PyMethodDef methods[] = {{"tokens", complete_tokens, METH_VARARGS, NULL},
                                {"calls", complete_calls, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "completing", NULL, -1, methods};
PyMODINIT_FUNC PyInit_completing(void) { return PyModule_Create(&definition); }
"""


def load() -> Any:
    import ringloop

    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "completing.c"), Path(folder, "completing.so")
        source.write_text(SOURCE, encoding="utf-8")
        headers = [f"-I{sysconfig.get_paths()['include']}", f"-I{ringloop.get_include()}"]
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", *headers,
                        str(source), "-o", str(built)], check=True)
        spec = importlib.util.spec_from_file_location("completing", built)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

// Where an awaitable was made: for the warning about one that was never awaited, while Python
// tracks the origins of coroutines (asyncio's debug mode,
// sys.set_coroutine_origin_tracking_depth()), or RINGLOOP_DEBUG asks for it.
//
// Thread: any with the GIL.
#include <Python.h>
#include <frameobject.h>

#include "ringloop/bridge/python/ref.hpp"
#include "table.hpp"

namespace ringloop::bridge {
namespace {

constexpr int forced_depth = 10;  // asyncio's

// "  File "name", line 5, in function\n", as a traceback has it.
ref described(PyFrameObject* frame) noexcept {
    const ref code = ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const auto* known = reinterpret_cast<PyCodeObject*>(code.get());
    return ref::steal(PyUnicode_FromFormat("  File \"%U\", line %d, in %U\n", known->co_filename,
                                           PyFrame_GetLineNumber(frame), known->co_name));
}

}  // namespace

PyObject* creation_site() noexcept {
    int depth = PyThreadState_Get()->coroutine_origin_tracking_depth;
    if (depth <= 0 && debug_is_forced()) depth = forced_depth;
    if (depth <= 0) return nullptr;
    ref text = ref::steal(PyUnicode_FromString(""));
    ref frame = ref::share(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
    for (int i = 0; i < depth && frame && text; ++i) {
        auto* const at = reinterpret_cast<PyFrameObject*>(frame.get());
        const ref line = described(at);
        text = line ? ref::steal(PyUnicode_Concat(line.get(), text.get())) : ref();
        frame = ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
    }
    if (!text) PyErr_Clear();  // no memory: the warning goes without
    return text.release();
}

}  // namespace ringloop::bridge

#include "iree_launcher.h"

#include <chrono>
#include <new>

namespace gnomon {

namespace {

// After a call that took this long, the next one runs so that an interrupt can end it.
constexpr std::chrono::milliseconds slow_call{20};

template <typename... Args> nb::object call(const nb::object &function, Args... args) {
    PyObject *arguments[] = {args...};
    PyObject *result = PyObject_Vectorcall(function.ptr(), arguments, sizeof...(args), nullptr);
    if (!result)
        nb::raise_python_error();
    return nb::steal(result);
}

nb::object new_tuple(size_t count) {
    nb::object tuple = nb::steal(PyTuple_New((Py_ssize_t) count));
    if (!tuple.is_valid())
        nb::raise_python_error();
    return tuple;
}

// Holds an acquired lock.
class Held {
  public:
    explicit Held(CallLock &lock) : lock_(lock) {}
    Held(const Held &) = delete;
    ~Held() { lock_.release(); }

  private:
    CallLock &lock_;
};

} // namespace

CallLock::CallLock() : lock_(PyThread_allocate_lock()) {
    if (!lock_)
        throw std::bad_alloc();
}

CallLock::~CallLock() { PyThread_free_lock(lock_); }

void CallLock::acquire() {
    if (try_acquire())
        return;
    for (;;) {
        PyLockStatus status;
        {
            nb::gil_scoped_release released;
            status = PyThread_acquire_lock_timed(lock_, -1, 1);
        }
        if (status == PY_LOCK_ACQUIRED)
            return;
        if (PyErr_CheckSignals() != 0)
            nb::raise_python_error();
    }
}

IreeLauncher::IreeLauncher(nb::object buffer_type, nb::object view_type, nb::object list_type,
                           nb::object device, nb::sequence output_types, bool keeps_results,
                           nb::object failed, nb::object owned)
    : Launcher(std::move(buffer_type), std::move(device), std::move(output_types)),
      view_type_(std::move(view_type)), list_type_(std::move(list_type)),
      failed_(std::move(failed)), owned_(std::move(owned)), count_(nb::int_(outputs())),
      names_(nb::dict()), keeps_results_(keeps_results) {}

void IreeLauncher::bind(nb::object pack, nb::object context, nb::object invoke, nb::object function,
                        nb::object loaded) {
    ready = false;
    pack_ = std::move(pack);
    context_ = std::move(context);
    invoke_ = std::move(invoke);
    function_ = std::move(function);
    loaded_ = std::move(loaded);
    state_ = loaded_.attr("state");
    lock_object_ = loaded_.attr("lock");
    lock_ = nb::cast<CallLock *>(lock_object_);
    values_.reset();
    generation_ = generation;
}

bool IreeLauncher::push(Arguments &arguments, size_t index, PyObject *buffer) const {
    if (!is_ready(buffer))
        return false;
    PyObject *array = slot(buffer, buffers_.array);
    nb::object view = nb::borrow(slot(buffer, buffers_.view));
    if (view.is_none()) {
        // It was deleted, or its computation failed; or it has not been used on the device before.
        if (array == Py_None)
            return false;
        static const nb::object *view_for = new nb::object(interned("view_for"));
        PyObject *given[] = {buffer, state_.ptr()};
        view = nb::steal(PyObject_VectorcallMethod(view_for->ptr(), given,
                                                   2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
        if (!view.is_valid())
            nb::raise_python_error();
        array = slot(buffer, buffers_.array);
    }
    if (array != Py_None)
        arguments.arrays.push_borrowed(array);
    if (!arguments.views.is_valid())
        arguments.views = new_tuple(arguments.count);
    NB_TUPLE_SET_ITEM(arguments.views.ptr(), (Py_ssize_t) index, view.release().ptr());
    return true;
}

bool IreeLauncher::launch(Arguments &arguments, References &results) {
    if (!arguments.views.is_valid())
        arguments.views = new_tuple(0);
    nb::object given = call(pack_, context_.ptr(), arguments.views.ptr(), names_.ptr());
    // Other threads may bind another program while this one runs.
    const nb::object invoke = invoke_, function = function_, loaded = loaded_, state = state_,
                     lock = lock_object_;
    if (!lock_->try_acquire())
        return false;
    Held held(*lock_);
    nb::object values = std::move(values_);
    if (!values.is_valid())
        values = call(list_type_, count_.ptr());
    std::chrono::steady_clock::duration taken;
    try {
        auto started = std::chrono::steady_clock::now();
        call(invoke, function.ptr(), given.ptr(), values.ptr());
        taken = std::chrono::steady_clock::now() - started;
    } catch (nb::python_error &error) {
        nb::object value = nb::borrow(error.value());
        call(failed_, value.ptr(), state.ptr());
        throw;
    }
    if (taken > slow_call) {
        ready = false;
        loaded.attr("slow") = true;
    }
    for (size_t i = 0; i < shapes_.size(); ++i)
        results.push(result(values.ptr(), i));
    if (keeps_results_ && loaded.is(loaded_))
        values_ = std::move(values);
    if (arguments.arrays.size() != 0) {
        nb::object checked = call(owned_, results.release_to_list().ptr(), state.ptr());
        for (nb::handle buffer : checked)
            results.push_borrowed(buffer.ptr());
    }
    return true;
}

nb::object IreeLauncher::result(PyObject *values, size_t index) const {
    static const nb::object *get = new nb::object(interned("get_as_object"));
    nb::object number = nb::int_(index);
    PyObject *asked[] = {values, number.ptr(), view_type_.ptr()};
    nb::object view = nb::steal(
        PyObject_VectorcallMethod(get->ptr(), asked, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!view.is_valid())
        nb::raise_python_error();
    return new_buffer(index, view.ptr(), Py_None);
}

int IreeLauncher::traverse(visitproc visit, void *arg) const {
    for (const nb::object *object : {&failed_, &owned_, &pack_, &context_, &invoke_, &function_,
                                     &loaded_, &state_, &lock_object_, &values_})
        Py_VISIT(object->ptr());
    return Launcher::traverse(visit, arg);
}

void IreeLauncher::clear() {
    ready = false;
    for (nb::object *object : {&pack_, &context_, &invoke_, &function_, &loaded_, &values_}) {
        nb::object dropped = std::move(*object);
    }
}

} // namespace gnomon

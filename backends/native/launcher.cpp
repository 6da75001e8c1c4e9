#include "launcher.h"

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

uint64_t Launcher::generation = 0;
bool Launcher::recording = false;

Launcher::Arguments::Arguments(size_t count) : views(nb::steal(PyTuple_New((Py_ssize_t) count))) {
    if (!views.is_valid())
        nb::raise_python_error();
}

Launcher::Launcher(nb::object buffer_type, nb::object view_type, nb::object list_type,
                   nb::object device, nb::sequence output_types, bool keeps_results,
                   nb::object failed, nb::object owned)
    : buffers_(std::move(buffer_type)), view_type_(std::move(view_type)),
      list_type_(std::move(list_type)), device_(std::move(device)), failed_(std::move(failed)),
      owned_(std::move(owned)), names_(nb::dict()), keeps_results_(keeps_results) {
    for (nb::handle type : output_types) {
        shapes_.push_back(type[0]);
        dtypes_.push_back(type[1]);
    }
    count_ = nb::int_(shapes_.size());
}

void Launcher::bind(nb::object pack, nb::object context, nb::object invoke, nb::object function,
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

bool Launcher::push(Arguments &arguments, size_t index, PyObject *buffer) const {
    if ((PyObject *) Py_TYPE(buffer) != buffers_.type.ptr() ||
        slot(buffer, buffers_.device) != device_.ptr() || slot(buffer, buffers_.pending) != Py_None)
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
        arguments.keep_alive.push_borrowed(array);
    NB_TUPLE_SET_ITEM(arguments.views.ptr(), (Py_ssize_t) index, view.release().ptr());
    return true;
}

bool Launcher::launch(Arguments &arguments, References &results) {
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
        results.push(new_buffer(values.ptr(), i));
    if (keeps_results_ && loaded.is(loaded_))
        values_ = std::move(values);
    if (arguments.keep_alive.size() != 0) {
        nb::object checked = call(owned_, results.release_to_list().ptr(), state.ptr());
        for (nb::handle buffer : checked)
            results.push_borrowed(buffer.ptr());
    }
    return true;
}

nb::object Launcher::new_buffer(PyObject *values, size_t index) const {
    static const nb::object *get = new nb::object(interned("get_as_object"));
    nb::object number = nb::int_(index);
    PyObject *asked[] = {values, number.ptr(), view_type_.ptr()};
    nb::object view = nb::steal(
        PyObject_VectorcallMethod(get->ptr(), asked, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!view.is_valid())
        nb::raise_python_error();
    nb::object buffer = nb::steal(PyType_GenericAlloc((PyTypeObject *) buffers_.type.ptr(), 0));
    if (!buffer.is_valid())
        nb::raise_python_error();
    set_slot(buffer.ptr(), buffers_.shape, shapes_[index].ptr());
    set_slot(buffer.ptr(), buffers_.dtype, dtypes_[index].ptr());
    set_slot(buffer.ptr(), buffers_.device, device_.ptr());
    set_slot(buffer.ptr(), buffers_.view, view.ptr());
    for (Py_ssize_t offset : {buffers_.array, buffers_.pending, buffers_.host, buffers_.deleted})
        set_slot(buffer.ptr(), offset, Py_None);
    return buffer;
}

int Launcher::traverse(visitproc visit, void *arg) const {
    for (const nb::object *object : {&device_, &failed_, &owned_, &pack_, &context_, &invoke_,
                                     &function_, &loaded_, &state_, &lock_object_, &values_})
        Py_VISIT(object->ptr());
    return 0;
}

void Launcher::clear() {
    ready = false;
    for (nb::object *object : {&pack_, &context_, &invoke_, &function_, &loaded_, &values_}) {
        nb::object dropped = std::move(*object);
    }
}

} // namespace gnomon

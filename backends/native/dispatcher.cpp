#include "dispatcher.h"

namespace gnomon {

namespace {

nb::object get_attribute(const nb::object &object, const nb::object &name) {
    nb::object value = nb::steal(PyObject_GetAttr(object.ptr(), name.ptr()));
    if (!value.is_valid())
        nb::raise_python_error();
    return value;
}

nb::object keywords(PyObject *kwargs) {
    return kwargs ? nb::borrow(kwargs) : nb::object(nb::dict());
}

} // namespace

Dispatcher::Dispatcher(nb::object cache, nb::object config, nb::object state)
    : cache_object_(std::move(cache)), cache_(nb::cast<SignatureCache *>(cache_object_)),
      config_(std::move(config)), state_(std::move(state)), token_name_(interned("token")),
      operands_name_(interned("operands_somewhere")), staging_name_(interned("staging")) {}

PyObject *Dispatcher::context = nullptr;
long Dispatcher::staging = 0;

nb::object Dispatcher::context_of_call() const {
    if (staging != 0 && !get_attribute(state_, staging_name_).is_none())
        return nb::object();
    if (context)
        return nb::borrow(context);
    if (!get_attribute(config_, operands_name_).is(nb::handle(Py_False)))
        return nb::object();
    return get_attribute(config_, token_name_);
}

nb::object Dispatcher::call(nb::handle self, PyObject *args, PyObject *kwargs) const {
    if (nb::object current = context_of_call(); current.is_valid()) {
        nb::object result = cache_->call(args, kwargs, current);
        if (result.is_valid())
            return result;
    }
    return self.attr("_call")(nb::handle(args), keywords(kwargs));
}

int Dispatcher::traverse(visitproc visit, void *arg) const {
    Py_VISIT(cache_object_.ptr());
    return 0;
}

PyObject *call_dispatcher(PyObject *self, PyObject *args, PyObject *kwargs) noexcept {
    try {
        if (!nb::inst_ready(self)) {
            PyErr_SetString(PyExc_RuntimeError, "the compiled function is not initialized");
            return nullptr;
        }
        return nb::inst_ptr<Dispatcher>(self)->call(self, args, kwargs).release().ptr();
    } catch (nb::python_error &error) {
        error.restore();
    } catch (nb::builtin_exception &error) {
        PyErr_SetString(error.type() == nb::exception_type::type_error ? PyExc_TypeError
                                                                       : PyExc_ValueError,
                        error.what());
    } catch (std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

} // namespace gnomon

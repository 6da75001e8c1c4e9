#include "signature_cache.h"

#include "equality.h"

#include <algorithm>

namespace gnomon {

nb::tuple Key::avals() const {
    nb::list avals;
    for (uint64_t word : signature.words)
        if (PyObject *token = Signature::leaf_token(word))
            avals.append(nb::handle(token));
    return nb::tuple(avals);
}

bool signatures_equal(const Signature &a, const Signature &b) {
    if (a.hash != b.hash || a.words != b.words || a.objects.size() != b.objects.size())
        return false;
    if (a.objects.items() == b.objects.items())
        return true;
    for (size_t i = 0; i < a.objects.size(); ++i)
        if (!strict_equal(a.objects[i], b.objects[i]))
            return false;
    return true;
}

class SignatureCache::Lease {
  public:
    explicit Lease(SignatureCache &cache) : cache_(cache) {
        if (cache.pool_.empty()) {
            flattener_ = std::make_unique<Flattener>();
        } else {
            flattener_ = std::move(cache.pool_.back());
            cache.pool_.pop_back();
        }
    }
    ~Lease() {
        // Clear before returning it to the pool: dropping references may run code that looks up a
        // call.
        flattener_->clear();
        cache_.pool_.push_back(std::move(flattener_));
    }
    Flattener *operator->() { return flattener_.get(); }

  private:
    SignatureCache &cache_;
    std::unique_ptr<Flattener> flattener_;
};

SignatureCache::SignatureCache(Environment environment, StaticArguments statics)
    : environment_(std::move(environment)), statics_(std::move(statics)) {}

nb::tuple SignatureCache::lookup(nb::tuple args, nb::dict kwargs, nb::handle context) {
    Lease flattener(*this);
    flattener->flatten_call(environment_, layouts_, tokens_of(context), statics_, args.ptr(),
                            kwargs.ptr());

    nb::object entry, key;
    if (flattener->is_uncached) {
        entry = nb::none();
        key = nb::none();
    } else if (auto found = find(flattener->signature); found != table_.end()) {
        ++hits_;
        entry = found->second.entry;
        key = found->second.key_object;
    } else {
        ++misses_;
        entry = nb::none();
        key = nb::cast(Key(std::move(flattener->signature)));
    }

    nb::object leaves = flattener->leaves.release_to_list();
    PyObject *result = PyTuple_New(3);
    if (!result)
        nb::raise_python_error();
    NB_TUPLE_SET_ITEM(result, 0, entry.release().ptr());
    NB_TUPLE_SET_ITEM(result, 1, leaves.release().ptr());
    NB_TUPLE_SET_ITEM(result, 2, key.release().ptr());
    return nb::steal<nb::tuple>(result);
}

nb::object SignatureCache::call(PyObject *args, PyObject *kwargs, nb::handle context) {
    Lease flattener(*this);
    Table::iterator found;
    try {
        flattener->flatten_call(environment_, layouts_, tokens_of(context), statics_, args, kwargs);
        if (flattener->is_uncached)
            return nb::object();
        found = find(flattener->signature);
    } catch (nb::python_error &) {
        return nb::object(); // `lookup` raises the error again
    } catch (nb::builtin_exception &) {
        return nb::object();
    }
    if (found == table_.end())
        return nb::object();
    ++hits_;
    // The call may run Python code that removes the entry.
    nb::object entry = found->second.entry;
    if (DirectEntry *direct = found->second.direct)
        return direct->call(flattener->leaves);
    nb::object leaves = flattener->leaves.release_to_list();
    PyObject *given[] = {leaves.ptr()};
    nb::object result = nb::steal(PyObject_Vectorcall(entry.ptr(), given, 1, nullptr));
    if (!result.is_valid())
        nb::raise_python_error();
    return result;
}

void SignatureCache::insert(nb::handle_t<Key> key_object, nb::object entry) {
    if (entry.is_none())
        throw nb::type_error("the entry of a SignatureCache must not be None, which lookup returns "
                             "if there is no entry");
    const Key *key = nb::inst_ptr<Key>(key_object);
    DirectEntry *direct =
        nb::isinstance<DirectEntry>(entry) ? nb::inst_ptr<DirectEntry>(entry) : nullptr;
    auto found = find(key->signature);
    if (found != table_.end()) {
        // The old entry is dropped at the end of this function, when the table is consistent.
        std::swap(found->second.entry, entry);
        found->second.direct = direct;
        return;
    }
    table_.emplace(key->signature.hash,
                   Slot{nb::borrow(key_object), key, std::move(entry), direct});
    ++generation_;
}

void SignatureCache::clear() {
    // Dropping the entries may run Python code, which then sees an empty cache.
    Table table = std::move(table_);
    table_.clear();
    ++generation_;
    auto contexts = std::move(contexts_);
    contexts_.clear();
    layouts_.clear();
    hits_ = misses_ = 0;
}

SignatureCache::Table::iterator SignatureCache::find(const Signature &signature) {
restart:
    auto [first, last] = table_.equal_range(signature.hash);
    for (auto slot = first; slot != last; ++slot) {
        // Comparing may run Python code that changes the table and drops the key.
        nb::object held = slot->second.key_object;
        uint64_t generation = generation_;
        bool equal = signatures_equal(slot->second.key->signature, signature);
        if (generation_ != generation)
            goto restart;
        if (equal)
            return slot;
    }
    return table_.end();
}

std::shared_ptr<LeafTokens> SignatureCache::tokens_of(nb::handle context) {
    if (!contexts_.empty() && contexts_.front()->context().is(context))
        return contexts_.front();

    auto by_identity = [&](const std::shared_ptr<LeafTokens> &tokens) {
        return tokens->context().is(context);
    };
    auto found = std::find_if(contexts_.begin(), contexts_.end(), by_identity);
    if (found != contexts_.end()) {
        std::rotate(contexts_.begin(), found, found + 1);
        return contexts_.front();
    }

    // Comparing may run Python code, so work on a copy.
    auto tokens = std::make_shared<LeafTokens>(nb::borrow(context));
    auto contexts = contexts_;
    for (const std::shared_ptr<LeafTokens> &known : contexts) {
        if (known->context_hash() == tokens->context_hash() &&
            strict_equal(known->context().ptr(), context.ptr()))
            return known;
    }
    contexts_.insert(contexts_.begin(), tokens);
    if (contexts_.size() > max_contexts) {
        // Remove it from the vector before dropping its references, which may run Python code.
        std::shared_ptr<LeafTokens> oldest = std::move(contexts_.back());
        contexts_.pop_back();
    }
    return tokens;
}

int SignatureCache::traverse(visitproc visit, void *arg) const {
    if (int result = environment_.traverse(visit, arg))
        return result;
    if (int result = layouts_.traverse(visit, arg))
        return result;
    for (const auto &tokens : contexts_)
        if (int result = tokens->traverse(visit, arg))
            return result;
    for (const auto &item : table_) {
        Py_VISIT(item.second.key_object.ptr());
        Py_VISIT(item.second.entry.ptr());
    }
    return 0;
}

void SignatureCache::drop_references() {
    clear();
    environment_.clear();
}

} // namespace gnomon

/* The scan of compiled.py in C: the same matches, several times as fast. Built where there is a C compiler; compiled.py
   has the same in Python for where there is none, and is what tests compare this with. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint32_t crc_table[256];

static void fill_crc_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? (value >> 1) ^ 0xEDB88320u : value >> 1;
        crc_table[byte] = value;
    }
}

static uint32_t crc32_of(const char *text, Py_ssize_t size) {
    uint32_t value = 0xFFFFFFFFu;
    for (Py_ssize_t at = 0; at < size; at++) value = crc_table[(value ^ (unsigned char)text[at]) & 255] ^ (value >> 8);
    return value ^ 0xFFFFFFFFu;
}

/* A Bloom filter as NameBits has it: two bits for each state. */
typedef struct {
    const unsigned char *bytes;
    int log; /* bits, as a power of two */
} Filter;

static int has_bit(const Filter *filter, uint64_t where) { return filter->bytes[where >> 3] >> (where & 7) & 1; }

static int may_hold(const Filter *filter, uint64_t state) {
    int rest = 64 - filter->log;
    return has_bit(filter, state >> rest) && has_bit(filter, (state << filter->log) >> rest);
}

static int read_filter(Py_buffer *view, Filter *filter) {
    Py_ssize_t size = view->len;
    if (size < 1 || size & (size - 1)) {
        PyErr_Format(PyExc_ValueError, "A filter has %zd bytes, which is no power of two.", size);
        return -1;
    }
    filter->bytes = view->buf;
    for (filter->log = 3; size > 1; size >>= 1) filter->log++;
    return 0;
}

/* One row's words as keys spell them, one after the other with a space between. */
typedef struct {
    char *text;
    Py_ssize_t text_room;
    Py_ssize_t *begins, *ends;
    uint64_t *hashes;
    Py_ssize_t *hits;
    Py_ssize_t room;
} Row;

static int make_room(Row *row, Py_ssize_t words) {
    if (words <= row->room) return 0;
    Py_ssize_t room = 2 * words;
    void *begins = PyMem_Realloc(row->begins, room * sizeof(Py_ssize_t));
    if (begins) row->begins = begins;
    void *ends = PyMem_Realloc(row->ends, room * sizeof(Py_ssize_t));
    if (ends) row->ends = ends;
    void *hits = PyMem_Realloc(row->hits, room * sizeof(Py_ssize_t));
    if (hits) row->hits = hits;
    void *hashes = PyMem_Realloc(row->hashes, room * sizeof(uint64_t));
    if (hashes) row->hashes = hashes;
    if (!begins || !ends || !hits || !hashes) {
        PyErr_NoMemory();
        return -1;
    }
    row->room = room;
    return 0;
}

/* Copy a word; one with a space, a NUL or half a surrogate pair becomes what no key holds, as in _spelt. */
static Py_ssize_t spell(char *to, const char *from, Py_ssize_t size) {
    Py_ssize_t at = 0, out = 0;
    while (at < size) {
        if (size - at >= 3 && !memcmp(from + at, "\xE2\x80\x99", 3)) {
            to[out++] = '\'';
            at += 3;
        } else {
            char byte = from[at++];
            to[out++] = byte == ' ' || byte == '\0' ? '\1' : byte;
        }
    }
    return out;
}

static int read_words(Row *row, PyObject *words, Py_ssize_t count) {
    Py_ssize_t used = 0;
    for (Py_ssize_t at = 0; at < count; at++) {
        Py_ssize_t size;
        PyObject *own = PyTuple_GET_ITEM(words, at);
        if (!PyUnicode_Check(own)) {
            PyErr_Format(PyExc_TypeError, "A word is %R, not a text.", own);
            return -1;
        }
        const char *word = PyUnicode_AsUTF8AndSize(own, &size);
        if (!word) {
            if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
            PyErr_Clear();
            word = "\1";
            size = 1;
        }
        if (used + size + 1 > row->text_room) {
            Py_ssize_t room = 2 * (used + size + 1);
            char *text = PyMem_Realloc(row->text, room);
            if (!text) {
                PyErr_NoMemory();
                return -1;
            }
            row->text = text;
            row->text_room = room;
        }
        if (at) row->text[used++] = ' ';
        row->begins[at] = used;
        used += spell(row->text + used, word, size);
        row->ends[at] = used;
        row->hashes[at] = crc32_of(row->text + row->begins[at], used - row->begins[at]);
    }
    return 0;
}

/* Append (start, end, number) to the matches if the words from start to end are a key; return 1 if so, -1 on an error. */
static int add_if_key(Row *row, Py_ssize_t start, Py_ssize_t end, PyObject *get, PyObject *matches) {
    Py_ssize_t begin = row->begins[start];
    PyObject *text = PyBytes_FromStringAndSize(row->text + begin, row->ends[end - 1] - begin);
    if (!text) return -1;
    PyObject *number = PyObject_CallOneArg(get, text);
    Py_DECREF(text);
    if (!number) return -1;
    if (number == Py_None) {
        Py_DECREF(number);
        return 0;
    }
    PyObject *match = Py_BuildValue("(nnN)", start, end, number);
    if (!match) return -1;
    int failed = PyList_Append(matches, match);
    Py_DECREF(match);
    return failed ? -1 : 1;
}

static int scan_row(Row *row, Py_ssize_t count, const Filter *names, const Filter *beginnings, uint64_t seed,
                    uint64_t factor, PyObject *get, int every, PyObject *matches) {
    for (Py_ssize_t start = 0; start < count;) {
        Py_ssize_t hits = 0, next = start + 1;
        uint64_t state = seed;
        for (Py_ssize_t at = start; at < count; at++) {
            state = (state ^ row->hashes[at]) * factor;
            if (may_hold(names, state)) row->hits[hits++] = at + 1;
            if (at + 1 == count || !may_hold(beginnings, state)) break;
        }
        while (hits--) {
            int is_key = add_if_key(row, start, row->hits[hits], get, matches);
            if (is_key < 0) return -1;
            if (is_key && !every) {
                next = row->hits[hits];
                break;
            }
        }
        start = next;
    }
    return 0;
}

static PyObject *matches_of(Row *row, PyObject *words, const Filter *names, const Filter *beginnings, uint64_t seed,
                            uint64_t factor, PyObject *get, int every) {
    PyObject *own = PySequence_Tuple(words); /* which nobody can change meanwhile */
    if (!own) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(own);
    PyObject *matches = PyList_New(0);
    if (!matches || make_room(row, count) < 0 || read_words(row, own, count) < 0 ||
        scan_row(row, count, names, beginnings, seed, factor, get, every, matches) < 0)
        Py_CLEAR(matches);
    Py_DECREF(own);
    return matches;
}

static PyObject *scan(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *rows, *get;
    Py_buffer names_view, beginnings_view;
    unsigned long long seed, factor;
    int every;
    if (!PyArg_ParseTuple(arguments, "Oy*y*KKOp", &rows, &names_view, &beginnings_view, &seed, &factor, &get, &every))
        return NULL;
    Filter names, beginnings;
    Row row = {0};
    PyObject *result = NULL;
    PyObject *own = PySequence_Tuple(rows);
    if (!own || read_filter(&names_view, &names) < 0 || read_filter(&beginnings_view, &beginnings) < 0) goto end;
    result = PyList_New(PyTuple_GET_SIZE(own));
    for (Py_ssize_t at = 0; result && at < PyTuple_GET_SIZE(own); at++) {
        PyObject *words = PyTuple_GET_ITEM(own, at);
        PyObject *matches = matches_of(&row, words, &names, &beginnings, seed, factor, get, every);
        if (matches)
            PyList_SET_ITEM(result, at, matches);
        else
            Py_CLEAR(result);
    }
end:
    PyMem_Free(row.text);
    PyMem_Free(row.begins);
    PyMem_Free(row.ends);
    PyMem_Free(row.hits);
    PyMem_Free(row.hashes);
    Py_XDECREF(own);
    PyBuffer_Release(&names_view);
    PyBuffer_Release(&beginnings_view);
    return result;
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_VARARGS,
     "scan(rows, names, beginnings, seed, factor, get, every): return each row's keys as (start, end, number)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_scan",
    .m_doc = "The gazetteer's scan, compiled.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__scan(void) {
    fill_crc_table();
    return PyModule_Create(&module);
}

"""Numpy arrays and scalars. Imported only when one is met, so that numpy is needed by those alone who store its values."""

from __future__ import annotations

import re
from math import prod
from typing import Any, Final

from ormsgpack import Ext

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.decode import Decoder, Unloadable
from perdure.checkpoint.serde.encode import Encoder, Refused
from perdure.errors import CorruptRecord

_PLAIN_DTYPE: Final = re.compile(r"[<>|=][biufcSUVmM]\d{1,8}(\[\d{0,9}[a-zA-Zμ]{1,2}\])?", re.ASCII)
"""Bool, numbers, text, raw bytes, dates. Not "O", whose elements are pointers."""
MAX_DTYPE_DEPTH: Final = 8
MAX_DIMENSIONS: Final = 64


def dump_array(enc: Encoder, value: Any) -> Ext:
    """The extension of an array. An array that is contiguous in neither order is written in C order."""
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return Ext(v1.NUMPY_ARRAY, enc.pack([_dtype_data(value.dtype), list(value.shape), order, value.tobytes(order=order)]))


def dump_scalar(enc: Encoder, value: Any) -> Ext:
    """The extension of a scalar."""
    if value.dtype.kind in "US":
        # Arrays strip zeros from the end of text, scalars do not.
        plain = str.__str__(value) if value.dtype.kind == "U" else bytes.__getitem__(value, slice(None))
        return Ext(v1.NUMPY_SCALAR, enc.pack([value.dtype.kind, plain]))
    return Ext(v1.NUMPY_SCALAR, enc.pack([_dtype_data(value.dtype), value.tobytes()]))


def load_array(dec: Decoder, payload: bytes) -> Any:
    """The array of a payload."""
    numpy = _numpy()
    stored_dtype, shape, order, data = dec.parts(payload, 4, 4)
    dtype = _dtype(numpy, stored_dtype)
    if not _is_shape(shape) or order not in ("C", "F") or type(data) is not bytes or prod(shape) * dtype.itemsize != len(data):
        raise CorruptRecord("stored bytes are damaged: a numpy array does not fit its shape")
    if not data:
        return numpy.empty(shape, dtype, order)
    return numpy.frombuffer(data, dtype).reshape(shape, order=order).copy(order=order)


def load_scalar(dec: Decoder, payload: bytes) -> Any:
    """The scalar of a payload."""
    numpy = _numpy()
    stored_dtype, data = dec.parts(payload, 2, 2)
    if stored_dtype == "U" and type(data) is str:
        return numpy.str_(data)
    if stored_dtype == "S" and type(data) is bytes:
        return numpy.bytes_(data)
    dtype = _dtype(numpy, stored_dtype)
    if type(data) is not bytes or len(data) != dtype.itemsize:
        raise CorruptRecord("stored bytes are damaged: a numpy scalar does not fit its dtype")
    # The copy keeps structured scalars from sharing the record's bytes.
    return numpy.frombuffer(data, dtype).copy()[0]


def _numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise Unloadable("numpy:ndarray", "numpy is not installed: pip install numpy") from error
    return np


def _dtype_data(dtype: Any) -> Any:
    """A dtype as plain data.

    Raises:
        Refused: it holds objects, or would not come back the same.
    """
    if dtype.hasobject:
        raise Refused("cannot be stored: a numpy array of objects; store a list of them")
    data = _describe(dtype)
    try:
        same = _dtype(_numpy(), data)
    except (CorruptRecord, Unloadable) as error:
        raise Refused(f"cannot be stored: its dtype {dtype} is of no storable kind") from error
    if same != dtype or dtype.metadata or same.isalignedstruct != dtype.isalignedstruct or same.itemsize != dtype.itemsize:
        raise Refused(f"cannot be stored: its dtype {dtype} has an alignment, titles or metadata that would be lost")
    return data


def _describe(dtype: Any) -> Any:
    if dtype.names is None:
        return dtype.str
    fields: list[Any] = []
    for name in dtype.names:
        inner = dtype.fields[name][0]
        shape = inner.shape
        fields.append([name, _describe(inner.base), list(shape)] if shape else [name, _describe(inner)])
    return fields


def _dtype(numpy: Any, data: Any, depth: int = 0) -> Any:
    """The dtype of plain data.

    Raises:
        CorruptRecord: it is none that this library writes.
        Unloadable: this platform does not have it.
    """
    if type(data) is str and _PLAIN_DTYPE.fullmatch(data):
        try:
            dtype = numpy.dtype(data)
        except TypeError as error:
            raise Unloadable("numpy:dtype", f"this numpy has no dtype {data!r}", data) from error
    elif type(data) is list and data and depth < MAX_DTYPE_DEPTH and all(map(_is_field, data)):
        dtype = numpy.dtype([(name, _dtype(numpy, inner, depth + 1), *map(tuple, shape)) for name, inner, *shape in data])
    else:
        raise CorruptRecord("stored bytes are damaged: a numpy dtype that is none")
    if not 0 < dtype.itemsize <= v1.MAX_ITEMSIZE:
        raise CorruptRecord("stored bytes are damaged: a numpy dtype of impossible size")
    return dtype


def _is_field(field: Any) -> bool:
    return (
        type(field) is list
        and len(field) in (2, 3)
        and type(field[0]) is str
        and bool(field[0])
        and (len(field) == 2 or (_is_shape(field[2]) and bool(field[2])))
    )


def _is_shape(shape: Any) -> bool:
    return type(shape) is list and len(shape) <= MAX_DIMENSIONS and all(type(size) is int and size >= 0 for size in shape)

//! Tables of columns in Arrow's format, which other libraries use without copying, by Arrow's PyCapsule interface.

use crate::error::{self, Error};
use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array as _, ArrayRef, ArrowPrimitiveType, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::sync::Arc;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Table>()?;
    module.add_class::<Buffer>()
}

/// The stream's name in the interface.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// A stream of batches for the consumer, which decodes or reads on as it takes them.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, schema)));
    PyCapsule::new_with_value(py, stream, STREAM)
}

/// Columns of one length, with names and types.
#[pyclass(frozen, module = "isotherm._native")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    fn place_of(&self, name: &str) -> PyResult<usize> {
        self.schema.index_of(name).map_err(|_| {
            let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            PyKeyError::new_err(format!("no column `{name}`; there are {}", names.join(", ")))
        })
    }

    /// A column as one array.
    fn array(&self, place: usize) -> PyResult<ArrayRef> {
        match &self.batches[..] {
            [batch] => Ok(Arc::clone(batch.column(place))),
            [] => Ok(arrow_array::new_empty_array(self.schema.field(place).data_type())),
            _ => Err(Error::new_err("the table has several batches")),
        }
    }
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // a wish that the interface lets producers pass over
        stream_capsule(py, Arc::clone(&self.schema), self.batches.clone().into_iter().map(Ok))
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("isotherm.Table({} rows: {})", self.num_rows(), self.column_names().join(", "))
    }

    /// The memory of a column of numbers without gaps; `None` for others.
    fn buffer(&self, name: &str) -> PyResult<Option<Buffer>> {
        Ok(Buffer::of(&self.array(self.place_of(name)?)?))
    }

    /// A column's values as Python has them; gaps are `None`.
    fn values<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let place = self.place_of(name)?;
        let all = PyList::empty(py);
        for batch in &self.batches {
            append(batch.column(place), &all)?;
        }
        Ok(all)
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rows: Vec<Bound<'py, PyDict>> = (0..self.num_rows()).map(|_| PyDict::new(py)).collect();
        for name in self.column_names() {
            for (row, value) in rows.iter().zip(self.values(py, &name)?) {
                row.set_item(&name, value)?;
            }
        }
        Ok(rows)
    }
}

fn append(array: &ArrayRef, all: &Bound<'_, PyList>) -> PyResult<()> {
    fn numbers<'py, T: ArrowPrimitiveType>(array: &ArrayRef, all: &Bound<'py, PyList>) -> PyResult<()>
    where
        T::Native: IntoPyObject<'py>,
    {
        array.as_primitive::<T>().iter().try_for_each(|value| all.append(value))
    }
    match array.data_type() {
        DataType::UInt8 => numbers::<UInt8Type>(array, all),
        DataType::UInt16 => numbers::<UInt16Type>(array, all),
        DataType::UInt32 => numbers::<UInt32Type>(array, all),
        DataType::UInt64 => numbers::<UInt64Type>(array, all),
        DataType::Int32 => numbers::<Int32Type>(array, all),
        DataType::Int64 => numbers::<Int64Type>(array, all),
        DataType::Float64 => numbers::<Float64Type>(array, all),
        DataType::Boolean => array.as_boolean().iter().try_for_each(|value| all.append(value)),
        DataType::Utf8 => array.as_string::<i32>().iter().try_for_each(|value| all.append(value)),
        other => Err(PyTypeError::new_err(format!("columns of {other} cannot be listed; take the table by Arrow"))),
    }
}

/// Memory of a column, which NumPy views by its array interface. It is never written to, and lives as long as it is referenced.
#[pyclass(frozen, module = "isotherm._native")]
pub(crate) struct Buffer {
    memory: arrow_buffer::Buffer,
    /// NumPy's name of the type, such as `<u8`.
    kind: &'static str,
    len: usize,
}

impl Buffer {
    pub(crate) fn of(array: &ArrayRef) -> Option<Self> {
        if array.null_count() > 0 {
            return None;
        }
        fn part<T: ArrowPrimitiveType>(array: &ArrayRef) -> arrow_buffer::Buffer {
            array.as_primitive::<T>().values().inner().clone()
        }
        let (memory, kind) = match array.data_type() {
            DataType::UInt8 => (part::<UInt8Type>(array), "|u1"),
            DataType::UInt16 => (part::<UInt16Type>(array), "<u2"),
            DataType::UInt32 => (part::<UInt32Type>(array), "<u4"),
            DataType::UInt64 => (part::<UInt64Type>(array), "<u8"),
            DataType::Int32 => (part::<Int32Type>(array), "<i4"),
            DataType::Int64 => (part::<Int64Type>(array), "<i8"),
            DataType::Float64 => (part::<Float64Type>(array), "<f8"),
            _ => return None,
        };
        Some(Self { memory, kind, len: array.len() })
    }
}

#[pymethods]
impl Buffer {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", self.kind)?;
        interface.set_item("shape", (self.len,))?;
        interface.set_item("data", (self.memory.as_ptr() as usize, true))?;
        Ok(interface)
    }

    /// Where it begins.
    #[getter]
    fn address(&self) -> usize {
        self.memory.as_ptr() as usize
    }
}

/// Columns under construction.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn push(mut self, name: &str, array: ArrayRef) -> Self {
        self.fields.push(Field::new(name, array.data_type().clone(), array.null_count() > 0));
        self.arrays.push(array);
        self
    }
    pub(crate) fn array(self, name: &str, array: impl arrow_array::Array + 'static) -> Self {
        self.push(name, Arc::new(array))
    }
    pub(crate) fn text<T: AsRef<str>>(self, name: &str, values: impl Iterator<Item = T>) -> Self {
        self.texts(name, values.map(Some))
    }
    /// Nulls allowed.
    pub(crate) fn texts<T: AsRef<str>>(self, name: &str, values: impl Iterator<Item = Option<T>>) -> Self {
        let mut column = StringBuilder::new();
        column.extend(values);
        self.nullable(name, Arc::new(column.finish()))
    }
    pub(crate) fn counts(self, name: &str, values: impl Iterator<Item = Option<u64>>) -> Self {
        let mut column = UInt64Builder::new();
        values.for_each(|value| column.append_option(value));
        self.nullable(name, Arc::new(column.finish()))
    }
    pub(crate) fn numbers(self, name: &str, values: impl Iterator<Item = Option<f64>>) -> Self {
        let mut column = Float64Builder::new();
        values.for_each(|value| column.append_option(value));
        self.nullable(name, Arc::new(column.finish()))
    }
    pub(crate) fn flags(self, name: &str, values: impl Iterator<Item = Option<bool>>) -> Self {
        let mut column = BooleanBuilder::new();
        values.for_each(|value| column.append_option(value));
        self.nullable(name, Arc::new(column.finish()))
    }
    /// The same schema, with or without nulls.
    fn nullable(mut self, name: &str, array: ArrayRef) -> Self {
        self.fields.push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
        self
    }
    pub(crate) fn table(self) -> PyResult<Table> {
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), self.arrays)
            .map_err(|broken| Error::new_err(error::chain(&broken)))?;
        Ok(Table::of_batches(schema, vec![batch]))
    }
}

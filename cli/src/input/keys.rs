//! Keys by which elements are grouped: runs of equal adjacent keys.

use std::{collections::HashSet, sync::Arc};

use anyhow::{Result, bail};
use arrow_array::{
    Array, ArrowPrimitiveType,
    cast::AsArray,
    types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type},
};
use arrow_schema::DataType;
use serde::{Serialize, Serializer};

use super::Column;

const ALLOWED: &str = "allowed are integers, truth values, and strings of Arrow and Parquet";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// A null in the column of keys; adjacent nulls form a run.
    Null,
    Boolean(bool),
    Integer(i128),
    Text(Arc<str>),
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Boolean(key) => serializer.serialize_bool(*key),
            Self::Integer(key) => match (i64::try_from(*key), u64::try_from(*key)) {
                (Ok(key), _) => serializer.serialize_i64(key),
                (_, Ok(key)) => serializer.serialize_u64(key),
                _ => unreachable!("keys have 64 bits"),
            },
            Self::Text(key) => serializer.serialize_str(key),
        }
    }
}

#[derive(Clone, Copy)]
enum Seen<'a> {
    Null,
    Boolean(bool),
    Integer(i128),
    Text(&'a str),
    Shared(&'a Arc<str>),
}

impl Key {
    fn is(&self, key: Seen<'_>) -> bool {
        match (self, key) {
            (Self::Null, Seen::Null) => true,
            (Self::Boolean(own), Seen::Boolean(key)) => *own == key,
            (Self::Integer(own), Seen::Integer(key)) => *own == key,
            (Self::Text(own), Seen::Text(key)) => **own == *key,
            (Self::Text(own), Seen::Shared(key)) => Arc::ptr_eq(own, key) || own == key,
            _ => false,
        }
    }

    fn seen(&self) -> Seen<'_> {
        match self {
            Self::Null => Seen::Null,
            Self::Boolean(key) => Seen::Boolean(*key),
            Self::Integer(key) => Seen::Integer(*key),
            Self::Text(key) => Seen::Shared(key),
        }
    }
}

impl From<Seen<'_>> for Key {
    fn from(key: Seen<'_>) -> Self {
        match key {
            Seen::Null => Self::Null,
            Seen::Boolean(key) => Self::Boolean(key),
            Seen::Integer(key) => Self::Integer(key),
            Seen::Text(key) => Self::Text(key.into()),
            Seen::Shared(key) => Self::Text(key.clone()),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Interned dictionary strings, so that each is stored once however many rows refer to it.
    strings: HashSet<Arc<str>>,
    pub(crate) keys: Vec<Key>,
    pub(crate) ends: Vec<u64>,
}

impl Runs {
    pub(crate) fn rows(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(super) fn of_array(column: &Column) -> Result<Self> {
        let Some(keys) = column.integers() else {
            bail!("keys of {}; {ALLOWED}", column.data.dtype());
        };
        if column.shape.len() != 1 {
            bail!(
                "the keys have {} dimensions; give one dimension, with a key for each element",
                column.shape.len()
            );
        }
        let mut runs = Self::default();
        let is_bool = column.stored.is_some();
        keys.for_each(|key| match is_bool {
            true => runs.push(Seen::Boolean(key != 0)),
            false => runs.push(Seen::Integer(key)),
        });
        Ok(runs)
    }

    pub(super) fn require(data_type: &DataType) -> Result<()> {
        match data_type {
            DataType::Dictionary(_, keys) => Self::require(keys),
            DataType::Null | DataType::Boolean => Ok(()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(()),
            other if other.is_integer() => Ok(()),
            other => bail!("keys of type {other}; {ALLOWED}"),
        }
    }

    pub(super) fn append(&mut self, array: &dyn Array) -> Result<()> {
        match array.data_type() {
            DataType::Null => self.push_times(Seen::Null, array.len() as u64),
            DataType::Boolean => {
                let keys = array.as_boolean().iter();
                keys.for_each(|key| self.push(key.map_or(Seen::Null, Seen::Boolean)));
            }
            DataType::Int8 => self.integers::<Int8Type>(array),
            DataType::UInt8 => self.integers::<UInt8Type>(array),
            DataType::Int16 => self.integers::<Int16Type>(array),
            DataType::UInt16 => self.integers::<UInt16Type>(array),
            DataType::Int32 => self.integers::<Int32Type>(array),
            DataType::UInt32 => self.integers::<UInt32Type>(array),
            DataType::Int64 => self.integers::<Int64Type>(array),
            DataType::UInt64 => self.integers::<UInt64Type>(array),
            DataType::Utf8 => self.texts(array.as_string::<i32>().iter()),
            DataType::LargeUtf8 => self.texts(array.as_string::<i64>().iter()),
            DataType::Utf8View => self.texts(array.as_string_view().iter()),
            DataType::Dictionary(..) => self.dictionary(array)?,
            other => bail!("keys of type {other}; {ALLOWED}"),
        }
        Ok(())
    }

    fn integers<A: ArrowPrimitiveType<Native: Into<i128>>>(&mut self, array: &dyn Array) {
        for key in array.as_primitive::<A>() {
            self.push(key.map_or(Seen::Null, |key| Seen::Integer(key.into())));
        }
    }

    fn texts<'a>(&mut self, keys: impl Iterator<Item = Option<&'a str>>) {
        keys.for_each(|key| self.push(key.map_or(Seen::Null, Seen::Text)));
    }

    fn dictionary(&mut self, array: &dyn Array) -> Result<()> {
        let array = array.as_any_dictionary();
        if array.values().is_empty() {
            (0..array.len()).for_each(|_| self.push(Seen::Null));
            return Ok(());
        }
        let mut different = Self::default();
        let mut names = Vec::with_capacity(array.values().len());
        for place in 0..array.values().len() {
            different.append(&array.values().slice(place, 1))?;
            let mut name = different.keys.last().cloned().expect("a row was taken");
            if let Key::Text(own) = &mut name {
                // Each batch of rows may contain the same dictionary again.
                match self.strings.get(own) {
                    Some(known) => *own = known.clone(),
                    None => drop(self.strings.insert(own.clone())),
                }
            }
            names.push(name);
        }
        let places = array.keys();
        for (row, place) in array.normalized_keys().into_iter().enumerate() {
            match places.is_null(row) {
                true => self.push(Seen::Null),
                false => self.push(names[place].seen()),
            }
        }
        Ok(())
    }

    fn push(&mut self, key: Seen<'_>) {
        self.push_times(key, 1);
    }

    fn push_times(&mut self, key: Seen<'_>, rows: u64) {
        if rows == 0 {
            return;
        }
        let row = self.rows().saturating_add(rows);
        match (self.keys.last(), self.ends.last_mut()) {
            (Some(last), Some(end)) if last.is(key) => *end = row,
            _ => {
                self.keys.push(key.into());
                self.ends.push(row);
            }
        }
    }
}

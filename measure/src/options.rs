//! Parsers of option values from fixed lists, which shells can complete.

use std::ffi::OsStr;

use clap::{
    Arg, Command, Error,
    builder::{PossibleValue, TypedValueParser},
};
use warpfold_suite::{
    Dtype, Op,
    catalogue::{self, VARIANTS, Variant},
    parse_name,
};

/// A parser that keeps `parse`'s error messages and lists the possible values.
#[derive(Clone)]
pub(crate) struct Named<P> {
    parse: P,
    names: fn() -> Vec<&'static str>,
}

impl<P: TypedValueParser> TypedValueParser for Named<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

pub(crate) fn variant() -> Named<impl TypedValueParser<Value = &'static Variant>> {
    variant_by(catalogue::find)
}

/// Parses variants with `find`, which may accept more than the catalogue.
pub(crate) fn variant_by(
    find: fn(&str) -> Result<&'static Variant, warpfold_suite::Error>,
) -> Named<impl TypedValueParser<Value = &'static Variant>> {
    Named { parse: find, names: || VARIANTS.iter().map(|variant| variant.id).collect() }
}

pub(crate) fn dtype() -> Named<impl TypedValueParser<Value = Dtype>> {
    Named { parse: parse_name::<Dtype>, names: || Dtype::ALL.iter().map(|dtype| dtype.name()).collect() }
}

pub(crate) fn op() -> Named<impl TypedValueParser<Value = Op>> {
    op_by(|given| parse_name(given).map_err(|error| error.to_string()))
}

pub(crate) fn op_by(parse: fn(&str) -> Result<Op, String>) -> Named<impl TypedValueParser<Value = Op>> {
    Named { parse, names: || Op::ALL.iter().map(|op| op.name()).collect() }
}

//! Output of results as text and as JSON.

use std::{
    fmt,
    io::{self, Write},
};

use serde::{Serialize, Serializer, ser::SerializeMap};
use warpfold::internal::Dtype;
use warpfold_io::{
    shortened,
    table::{Cell, Column, Table},
    visible,
};
use warpfold_suite::{Scalar, Value, with_data};

use crate::{
    input::Key,
    pieces::{Cut, Pieces},
    reduce::{Answer, Field, Machine, Values},
};

const SHOWN: usize = 20;

const TURN: usize = 1 << 16;

pub(crate) struct Heading(String);

impl Heading {
    pub(crate) fn new(
        name: &str,
        dtype: Dtype,
        shape: &[usize],
        stored: Option<&str>,
        machine: &Machine,
    ) -> Self {
        let shape = match shape {
            [] | [1] => "1 element".to_owned(),
            lens => {
                let lens: Vec<String> = lens.iter().map(usize::to_string).collect();
                format!("{} elements", lens.join(" × "))
            }
        };
        let stored = stored.map_or(String::new(), |stored| format!("{stored} as "));
        Self(format!("{name}: {stored}{dtype}, {shape}, on {}", machine.name()))
    }
}

pub(crate) fn table(
    out: &mut impl Write,
    Heading(heading): &Heading,
    answers: &[Answer],
    pieces: &Pieces,
    all: bool,
) -> io::Result<()> {
    writeln!(out, "{}", visible(heading))?;
    let nulls: u64 = (0..pieces.count()).map(|piece| pieces.nulls(piece)).sum();
    match nulls {
        0 => {}
        1 => writeln!(out, "1 null is skipped")?,
        _ => writeln!(out, "{nulls} nulls are skipped")?,
    }
    if let Cut::Whole { .. } = pieces.cut() {
        return writeln!(out, "{}", single(answers, pieces));
    }
    let shown = if all { pieces.count() } else { pieces.count().min(SHOWN) };
    writeln!(out, "{}", several(answers, pieces, shown, nulls > 0))?;
    match pieces.count() - shown {
        0 => Ok(()),
        more => writeln!(out, "{more} more; --all shows them, and --json prints a line for each"),
    }
}

fn single(answers: &[Answer], pieces: &Pieces) -> Table {
    let mut table = Table::new([Column::new("operation"), Column::number("result")]);
    for (answer, field) in fields(answers) {
        table.row([label(answer, field).into(), text(answer, field, 0, pieces).into()]);
    }
    table
}

/// Creates a table with a row for every piece, up to `shown` rows.
fn several(answers: &[Answer], pieces: &Pieces, shown: usize, has_nulls: bool) -> Table {
    let place = match pieces.cut() {
        Cut::Segments { keys: Some(_), .. } => Column::new("key"),
        Cut::Segments { .. } => Column::number("segment"),
        Cut::Axes { .. } | Cut::Whole { .. } => Column::number("position"),
    };
    let mut columns = vec![place, Column::number("count")];
    columns.extend(has_nulls.then(|| Column::number("nulls")));
    columns.extend(fields(answers).map(|(answer, field)| Column::number(label(answer, field))));
    let mut table = Table::new(columns);
    for piece in 0..shown {
        let place = Place { pieces, piece }.to_string();
        let mut cells: Vec<Cell> = vec![place.into(), pieces.elements(piece).into()];
        cells.extend(has_nulls.then(|| pieces.nulls(piece).into()));
        cells.extend(fields(answers).map(|(answer, field)| text(answer, field, piece, pieces).into()));
        table.row(cells);
    }
    table
}

fn fields(answers: &[Answer]) -> impl Iterator<Item = (&Answer, &Field)> {
    answers.iter().flat_map(|answer| answer.fields.iter().map(move |field| (answer, field)))
}

pub(crate) fn json(
    out: &mut impl Write,
    dtype: Dtype,
    answers: &[Answer],
    pieces: &Pieces,
) -> io::Result<()> {
    // Formatted into large strings, because `out` scans each write for control characters.
    let mut lines = String::new();
    for answer in answers {
        for piece in 0..pieces.count() {
            lines += &serde_json::to_string(&Line { dtype, answer, place: Place { pieces, piece } })?;
            lines.push('\n');
            if lines.len() > TURN {
                out.write_all(lines.as_bytes())?;
                lines.clear();
            }
        }
    }
    out.write_all(lines.as_bytes())
}

fn label(answer: &Answer, field: &Field) -> String {
    match answer.fields.len() {
        1 => answer.op.to_string(),
        _ => format!("{} {}", answer.op, field.name),
    }
}

/// Formats a result as in JSON, without quotes.
fn text(answer: &Answer, field: &Field, piece: usize, pieces: &Pieces) -> String {
    match value(answer, field, piece, pieces) {
        Some(value) => serde_json::to_string(&value).expect("a number").trim_matches('"').to_owned(),
        None => "none".to_owned(),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Number {
    Of(Value),
    I128(i128),
    U128(u128),
}

fn value(answer: &Answer, field: &Field, piece: usize, pieces: &Pieces) -> Option<Number> {
    let has_value = pieces.elements(piece) > 0 || answer.op.has_value_of_none();
    has_value.then(|| match &field.values {
        Values::Of(data) => Number::Of(with_data!(data, values => values[piece].value())),
        Values::I128(values) => Number::I128(values[piece]),
        Values::U128(values) => Number::U128(values[piece]),
    })
}

#[derive(Clone, Copy)]
struct Place<'a> {
    pieces: &'a Pieces,
    piece: usize,
}

impl Place<'_> {
    /// Returns the index on each of the axes that are not reduced.
    fn position(&self, others: &[usize]) -> Vec<usize> {
        let mut rest = self.piece;
        let mut position: Vec<usize> = others
            .iter()
            .rev()
            .map(|&len| {
                let index = rest % len;
                rest /= len;
                index
            })
            .collect();
        position.reverse();
        position
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pieces.cut() {
            Cut::Axes { others, .. } => {
                let position = self.position(others);
                let position: Vec<String> = position.iter().map(usize::to_string).collect();
                f.write_str(&position.join(", "))
            }
            Cut::Segments { keys: Some(keys), .. } => match &keys[self.piece] {
                Key::Null => f.write_str("null"),
                Key::Boolean(key) => key.fmt(f),
                Key::Integer(key) => key.fmt(f),
                Key::Text(key) => f.write_str(&visible(&shortened(key))),
            },
            Cut::Whole { .. } | Cut::Segments { .. } => self.piece.fmt(f),
        }
    }
}

struct Line<'a> {
    dtype: Dtype,
    answer: &'a Answer,
    place: Place<'a>,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Place { pieces, piece } = self.place;
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("op", self.answer.op.name())?;
        line.serialize_entry("dtype", self.dtype.name())?;
        match pieces.cut() {
            Cut::Whole { .. } => {}
            Cut::Axes { others, .. } => {
                line.serialize_entry("position", &self.place.position(others))?;
            }
            Cut::Segments { keys: Some(keys), .. } => line.serialize_entry("key", &keys[piece])?,
            Cut::Segments { .. } => line.serialize_entry("segment", &piece)?,
        }
        line.serialize_entry("count", &pieces.elements(piece))?;
        line.serialize_entry("nulls", &pieces.nulls(piece))?;
        for field in &self.answer.fields {
            line.serialize_entry(field.name, &value(self.answer, field, piece, pieces))?;
        }
        line.end()
    }
}

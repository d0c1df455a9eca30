//! Generators of expressions. Most expressions are valid for most documents.

use bson::{Bson, Document, doc};

use super::operators::{OPERATORS, Operands, Signature, ValueKind};
use super::{Generator, NAMES, PATTERNS, TEXTS};

/// The maximum nesting depth of generated expressions.
pub(crate) const MAX_EXPRESSION_DEPTH: usize = 4;

/// Fields with a value of this kind in most documents of [`Generator::typed_documents`].
const FIELDS: [(&str, ValueKind); 6] = [
    ("a", ValueKind::Number),
    ("b", ValueKind::Text),
    ("c", ValueKind::Array),
    ("x", ValueKind::Document),
    ("0", ValueKind::Date),
    ("1", ValueKind::Boolean),
];
const UNITS: [&str; 9] = [
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
];
const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Rome",
    "America/New_York",
    "Australia/Lord_Howe",
    "+05:45",
    "-03",
    "+9959",
    "Mars/Base",
];
const FORMATS: [&str; 8] = [
    "%Y-%m-%dT%H:%M:%S.%LZ",
    "%d.%m.%Y",
    "%G-W%V-%u",
    "%H:%M %z",
    "%j %U %w",
    "%Z%%",
    "%b %B",
    "%",
];
const DATES: [&str; 8] = [
    "2024-05-17T10:20:30.5+02:00",
    "17.05.2024",
    "May 17th, 2024 10:20 pm",
    "2024-W20-5",
    "1700000000",
    "-0001-01-01",
    "99999-12-31",
    "12:30 Europe/Rome",
];
const TYPES: [&str; 10] = [
    "double", "string", "objectId", "bool", "date", "int", "long", "decimal", "array", "minKey",
];

impl Generator<'_> {
    /// Returns documents with `_id`s from 0 on. Most documents have the fields that expressions read.
    pub(crate) fn typed_documents(&mut self) -> Vec<Document> {
        let count = 1 + self.below(5);
        let documents = (0..count).map(|id| {
            let mut document = doc! { "_id": id as i32 };
            for (name, kind) in FIELDS {
                if !self.one_in(5) {
                    document.insert(name, self.constant(kind, &[]));
                }
            }
            for (name, value) in self.document(super::MAX_VALUE_DEPTH) {
                document.entry(name).or_insert(value);
            }
            document
        });
        documents.collect()
    }

    /// Returns an expression that usually gives a value of a kind. The expression can read the bound variables.
    pub(crate) fn expression(
        &mut self,
        kind: ValueKind,
        depth: usize,
        bound: &[&'static str],
    ) -> Bson {
        if self.one_in(32) {
            return self.value(1);
        }
        match self.below(if depth == 0 { 3 } else { 8 }) {
            0 => self.constant(kind, bound),
            1 | 2 => self.read(kind, bound),
            _ => self.operation(kind, depth - 1, bound),
        }
    }

    /// Returns a path or a variable.
    pub(crate) fn read(&mut self, kind: ValueKind, bound: &[&'static str]) -> Bson {
        if !bound.is_empty() && self.one_in(2) {
            return format!("$${}", self.pick(bound)).into();
        }
        let field = FIELDS.iter().find(|(_, field)| *field == kind);
        match (self.below(12), field) {
            (0, _) => "$$ROOT".into(),
            (1, _) => "$$REMOVE".into(),
            (2, _) => format!("$$CURRENT.{}", self.path()).into(),
            (3..5, _) | (_, None) => format!("${}", self.path()).into(),
            (_, Some((name, _))) => format!("${name}").into(),
        }
    }

    /// Returns a constant of a kind, in the form that an operator accepts.
    fn constant(&mut self, kind: ValueKind, bound: &[&'static str]) -> Bson {
        match kind {
            ValueKind::Any | ValueKind::Same => self.value(1),
            ValueKind::Array => {
                let kind = *self.choose(&[
                    ValueKind::Number,
                    ValueKind::Text,
                    ValueKind::Document,
                    ValueKind::Any,
                ]);
                let items: Vec<_> = (0..self.below(5))
                    .map(|_| self.constant(kind, bound))
                    .collect();
                items.into()
            }
            ValueKind::Boolean => self.one_in(2).into(),
            ValueKind::Date => {
                let millis = self.number() >> self.below(64);
                Bson::DateTime(bson::DateTime::from_millis(millis))
            }
            ValueKind::Document => self.document(1).into(),
            ValueKind::Number => match self.below(8) {
                0..4 => Bson::Int32(self.below(12) as i32 - 4),
                4 => Bson::Double(self.below(32) as f64 / 4.0 - 4.0),
                5 => Bson::Int64(self.number()),
                6 => Bson::Double(f64::from_bits(self.number().cast_unsigned())),
                _ => self.decimal(),
            },
            ValueKind::Text if self.one_in(6) => self.pick(&DATES).into(),
            ValueKind::Text => self.pick(&TEXTS).into(),
            ValueKind::Small => Bson::Int32(self.below(10) as i32 - 3),
            ValueKind::Bytes if self.one_in(2) => self.binary(),
            ValueKind::Bytes => self.pick(&TEXTS).into(),
            ValueKind::Format => self.pick(&FORMATS).into(),
            ValueKind::Name => self.pick(&NAMES).into(),
            ValueKind::Options => self.pick(&["", "i", "m", "s", "x", "im"]).into(),
            ValueKind::Order if self.one_in(2) => Bson::Int32(if self.one_in(2) { 1 } else { -1 }),
            ValueKind::Order => doc! { self.path(): if self.one_in(2) { 1 } else { -1 } }.into(),
            ValueKind::Pattern if self.one_in(2) => self.regex(),
            ValueKind::Pattern => self.pick(&PATTERNS).into(),
            ValueKind::Stamp => self.timestamp(),
            ValueKind::TypeName if self.one_in(4) => Bson::Int32(self.below(20) as i32),
            ValueKind::TypeName => self.pick(&TYPES).into(),
            ValueKind::Unit => self.pick(&UNITS).into(),
            ValueKind::Weekday => self.pick(&["monday", "sun", "SATURDAY", "friday"]).into(),
            ValueKind::Zone => self.pick(&ZONES).into(),
            // Forms with nested expressions.
            ValueKind::Arrays | ValueKind::Branches | ValueKind::Pairs | ValueKind::Variables => {
                self.form(kind, ValueKind::Any, 0, bound)
            }
        }
    }

    fn operation(&mut self, kind: ValueKind, depth: usize, bound: &[&'static str]) -> Bson {
        let fitting = |operator: &&Signature| {
            kind == ValueKind::Any || operator.gives == kind || operator.gives == ValueKind::Same
        };
        let fitting: Vec<_> = OPERATORS.iter().filter(fitting).collect();
        let operator = **self.choose(&fitting);
        let operands = self.arguments(&operator, kind, depth, bound);
        let mut expression = Document::new();
        expression.insert(operator.name, operands);
        expression.into()
    }

    fn arguments(
        &mut self,
        operator: &Signature,
        same: ValueKind,
        depth: usize,
        bound: &[&'static str],
    ) -> Bson {
        match operator.operands {
            Operands::One(kind) => match self.argument(kind, same, depth, bound) {
                // A bare array would be the list of operands, so wrap the array in an array with a single operand.
                Bson::Array(items) if kind != ValueKind::Pairs => vec![Bson::Array(items)].into(),
                operand => operand,
            },
            Operands::Several(kind) => {
                let operands: Vec<_> = (0..self.below(4))
                    .map(|_| self.argument(kind, same, depth, bound))
                    .collect();
                operands.into()
            }
            Operands::List(kinds, least) => {
                let count = least + self.below(kinds.len() - least + 1);
                let operands: Vec<_> = kinds[..count]
                    .iter()
                    .map(|kind| self.argument(*kind, same, depth, bound))
                    .collect();
                operands.into()
            }
            Operands::Named(known, least) => {
                let mut operands = Document::new();
                for (place, (name, kind)) in known.iter().enumerate() {
                    if place >= least && self.one_in(2) {
                        continue;
                    }
                    let operand = if matches!(*name, "in" | "cond") {
                        let bound = [bound, operator.binds].concat();
                        self.argument(*kind, same, depth, &bound)
                    } else {
                        self.argument(*kind, same, depth, bound)
                    };
                    operands.insert(*name, operand);
                }
                operands.into()
            }
        }
    }

    fn argument(
        &mut self,
        kind: ValueKind,
        same: ValueKind,
        depth: usize,
        bound: &[&'static str],
    ) -> Bson {
        match kind {
            ValueKind::Same => self.expression(same, depth, bound),
            ValueKind::Any
            | ValueKind::Array
            | ValueKind::Boolean
            | ValueKind::Date
            | ValueKind::Document
            | ValueKind::Number
            | ValueKind::Text => self.expression(kind, depth, bound),
            ValueKind::Arrays | ValueKind::Branches | ValueKind::Pairs | ValueKind::Variables => {
                self.form(kind, same, depth, bound)
            }
            _ if self.one_in(24) => self.expression(ValueKind::Any, depth, bound),
            _ => self.constant(kind, bound),
        }
    }

    /// Returns an operand that contains expressions, but is not an expression.
    fn form(
        &mut self,
        kind: ValueKind,
        same: ValueKind,
        depth: usize,
        bound: &[&'static str],
    ) -> Bson {
        match kind {
            ValueKind::Branches => {
                let branches: Vec<_> = (0..1 + self.below(3))
                    .map(|_| {
                        let case = self.expression(ValueKind::Any, depth, bound);
                        let then = self.expression(same, depth, bound);
                        Bson::Document(doc! { "case": case, "then": then })
                    })
                    .collect();
                branches.into()
            }
            ValueKind::Variables => {
                let x = self.expression(ValueKind::Any, depth, bound);
                let y = self.expression(same, depth, bound);
                doc! { "x": x, "y": y }.into()
            }
            ValueKind::Pairs => {
                let pairs: Vec<_> = (0..self.below(4))
                    .map(|_| {
                        let name = self.pick(&NAMES);
                        let value = self.expression(ValueKind::Any, depth, bound);
                        Bson::Array(vec![name.into(), value])
                    })
                    .collect();
                // The array is the only operand, and not the list of operands.
                vec![Bson::Array(pairs)].into()
            }
            _ => {
                let arrays: Vec<_> = (0..1 + self.below(3))
                    .map(|_| self.expression(ValueKind::Array, depth, bound))
                    .collect();
                arrays.into()
            }
        }
    }
}

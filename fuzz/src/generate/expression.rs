//! Expressions, of which most can be computed for most documents.

use bson::{Bson, Document, doc};

use super::operators::{Kind, OPERATORS, Operands, Signature};
use super::{Generator, NAMES, PATTERNS, TEXTS};

/// How deep generated expressions nest.
pub(crate) const DEPTH: usize = 4;

/// The fields that have a value of their kind in most documents of [`Generator::typed_documents`].
const FIELDS: [(&str, Kind); 6] = [
    ("a", Kind::Number),
    ("b", Kind::Text),
    ("c", Kind::Array),
    ("x", Kind::Document),
    ("0", Kind::Date),
    ("1", Kind::Boolean),
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
    /// Documents with `_id`s from 0 on, of which most have the fields that expressions look for.
    pub(crate) fn typed_documents(&mut self) -> Vec<Document> {
        let count = 1 + self.below(5);
        let documents = (0..count).map(|id| {
            let mut document = doc! { "_id": id as i32 };
            for (name, kind) in FIELDS {
                if !self.one_in(5) {
                    document.insert(name, self.constant(kind, &[]));
                }
            }
            for (name, value) in self.document(super::DEPTH) {
                document.entry(name).or_insert(value);
            }
            document
        });
        documents.collect()
    }

    /// An expression that gives a value of a kind, more often than not. It can read the variables that are bound.
    pub(crate) fn expression(&mut self, kind: Kind, depth: usize, bound: &[&'static str]) -> Bson {
        if self.one_in(32) {
            return self.value(1);
        }
        match self.below(if depth == 0 { 3 } else { 8 }) {
            0 => self.constant(kind, bound),
            1 | 2 => self.read(kind, bound),
            _ => self.operation(kind, depth - 1, bound),
        }
    }

    /// A path or a variable.
    pub(crate) fn read(&mut self, kind: Kind, bound: &[&'static str]) -> Bson {
        if !bound.is_empty() && self.one_in(2) {
            return format!("$${}", self.pick(bound)).into();
        }
        let own = FIELDS.iter().find(|(_, own)| *own == kind);
        match (self.below(12), own) {
            (0, _) => "$$ROOT".into(),
            (1, _) => "$$REMOVE".into(),
            (2, _) => format!("$$CURRENT.{}", self.path()).into(),
            (3..5, _) | (_, None) => format!("${}", self.path()).into(),
            (_, Some((name, _))) => format!("${name}").into(),
        }
    }

    /// A value of a kind, as an operator takes it.
    fn constant(&mut self, kind: Kind, bound: &[&'static str]) -> Bson {
        match kind {
            Kind::Any | Kind::Same => self.value(1),
            Kind::Array => {
                let kind = *self.choose(&[Kind::Number, Kind::Text, Kind::Document, Kind::Any]);
                let items: Vec<_> = (0..self.below(5))
                    .map(|_| self.constant(kind, bound))
                    .collect();
                items.into()
            }
            Kind::Boolean => self.one_in(2).into(),
            Kind::Date => {
                let millis = self.number() >> self.below(64);
                Bson::DateTime(bson::DateTime::from_millis(millis))
            }
            Kind::Document => self.document(1).into(),
            Kind::Number => match self.below(8) {
                0..4 => Bson::Int32(self.below(12) as i32 - 4),
                4 => Bson::Double(self.below(32) as f64 / 4.0 - 4.0),
                5 => Bson::Int64(self.number()),
                6 => Bson::Double(f64::from_bits(self.number().cast_unsigned())),
                _ => self.decimal(),
            },
            Kind::Text if self.one_in(6) => self.pick(&DATES).into(),
            Kind::Text => self.pick(&TEXTS).into(),
            Kind::Small => Bson::Int32(self.below(10) as i32 - 3),
            Kind::Bytes if self.one_in(2) => self.binary(),
            Kind::Bytes => self.pick(&TEXTS).into(),
            Kind::Format => self.pick(&FORMATS).into(),
            Kind::Name => self.pick(&NAMES).into(),
            Kind::Options => self.pick(&["", "i", "m", "s", "x", "im"]).into(),
            Kind::Order if self.one_in(2) => Bson::Int32(if self.one_in(2) { 1 } else { -1 }),
            Kind::Order => doc! { self.path(): if self.one_in(2) { 1 } else { -1 } }.into(),
            Kind::Pattern if self.one_in(2) => self.regex(),
            Kind::Pattern => self.pick(&PATTERNS).into(),
            Kind::Stamp => self.timestamp(),
            Kind::TypeName if self.one_in(4) => Bson::Int32(self.below(20) as i32),
            Kind::TypeName => self.pick(&TYPES).into(),
            Kind::Unit => self.pick(&UNITS).into(),
            Kind::Weekday => self.pick(&["monday", "sun", "SATURDAY", "friday"]).into(),
            Kind::Zone => self.pick(&ZONES).into(),
            // These are forms of expressions.
            Kind::Arrays | Kind::Branches | Kind::Pairs | Kind::Variables => {
                self.form(kind, Kind::Any, 0, bound)
            }
        }
    }

    fn operation(&mut self, kind: Kind, depth: usize, bound: &[&'static str]) -> Bson {
        let fitting = |operator: &&Signature| {
            kind == Kind::Any || operator.gives == kind || operator.gives == Kind::Same
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
        same: Kind,
        depth: usize,
        bound: &[&'static str],
    ) -> Bson {
        match operator.operands {
            Operands::One(kind) => match self.argument(kind, same, depth, bound) {
                // An array would be the operands, except where it is an array of one.
                Bson::Array(items) if kind != Kind::Pairs => vec![Bson::Array(items)].into(),
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

    fn argument(&mut self, kind: Kind, same: Kind, depth: usize, bound: &[&'static str]) -> Bson {
        match kind {
            Kind::Same => self.expression(same, depth, bound),
            Kind::Any
            | Kind::Array
            | Kind::Boolean
            | Kind::Date
            | Kind::Document
            | Kind::Number
            | Kind::Text => self.expression(kind, depth, bound),
            Kind::Arrays | Kind::Branches | Kind::Pairs | Kind::Variables => {
                self.form(kind, same, depth, bound)
            }
            _ if self.one_in(24) => self.expression(Kind::Any, depth, bound),
            _ => self.constant(kind, bound),
        }
    }

    /// What has expressions in it and is none.
    fn form(&mut self, kind: Kind, same: Kind, depth: usize, bound: &[&'static str]) -> Bson {
        match kind {
            Kind::Branches => {
                let branches: Vec<_> = (0..1 + self.below(3))
                    .map(|_| {
                        let case = self.expression(Kind::Any, depth, bound);
                        let then = self.expression(same, depth, bound);
                        Bson::Document(doc! { "case": case, "then": then })
                    })
                    .collect();
                branches.into()
            }
            Kind::Variables => {
                let x = self.expression(Kind::Any, depth, bound);
                let y = self.expression(same, depth, bound);
                doc! { "x": x, "y": y }.into()
            }
            Kind::Pairs => {
                let pairs: Vec<_> = (0..self.below(4))
                    .map(|_| {
                        let name = self.pick(&NAMES);
                        let value = self.expression(Kind::Any, depth, bound);
                        Bson::Array(vec![name.into(), value])
                    })
                    .collect();
                // The array is the only operand, not the operands.
                vec![Bson::Array(pairs)].into()
            }
            _ => {
                let arrays: Vec<_> = (0..1 + self.below(3))
                    .map(|_| self.expression(Kind::Array, depth, bound))
                    .collect();
                arrays.into()
            }
        }
    }
}

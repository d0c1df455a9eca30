//! Generators of documents, filters and updates from arbitrary bytes.
//!
//! Names and values come from small sets, so that filters match and paths exist.

mod expression;
mod operators;
mod pipeline;

use arbitrary::Unstructured;
use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{
    Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, RawDocumentBuf, Regex,
    Timestamp, doc,
};
use odm_engine::{Direction, Index};

pub(crate) use expression::MAX_EXPRESSION_DEPTH as EXPRESSION_DEPTH;
pub(crate) use operators::ValueKind;
pub(crate) use pipeline::{OTHER_COLLECTION, ordered};

/// The maximum nesting depth of generated values.
const MAX_VALUE_DEPTH: usize = 4;

const NAMES: [&str; 10] = ["a", "b", "c", "_id", "x", "0", "1", "2", "a b", "é"];
const TEXTS: [&str; 12] = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "A",
    "a\0",
    "a\0b",
    "\u{ff}",
    "\u{10ffff}",
    "1",
    "$a",
];
const PATTERNS: [&str; 14] = [
    "", "a", "^a", "^ab", "b$", ".", "^a|b", "[ab]+", "(a+)+$", "a{2}", "^a*", "(?i)A", "\\d",
    "[^a]",
];
const DECIMALS: [&str; 12] = [
    "0",
    "-0",
    "1",
    "1.0",
    "1.5",
    "0.1",
    "-1",
    "NaN",
    "Infinity",
    "-Infinity",
    "9E+6111",
    "1E-6176",
];
const FIELD_OPERATORS: [&str; 21] = [
    "$all",
    "$bitsAllClear",
    "$bitsAllSet",
    "$bitsAnyClear",
    "$bitsAnySet",
    "$elemMatch",
    "$eq",
    "$exists",
    "$gt",
    "$gte",
    "$in",
    "$lt",
    "$lte",
    "$mod",
    "$ne",
    "$nin",
    "$not",
    "$options",
    "$regex",
    "$size",
    "$type",
];
const UPDATE_OPERATORS: [&str; 15] = [
    "$addToSet",
    "$bit",
    "$currentDate",
    "$inc",
    "$max",
    "$min",
    "$mul",
    "$pop",
    "$pull",
    "$pullAll",
    "$push",
    "$rename",
    "$set",
    "$setOnInsert",
    "$unset",
];

/// A generator that turns bytes into requests of an application. After the last byte, the generator returns the simplest values.
pub(crate) struct Generator<'b>(Unstructured<'b>);

impl<'b> Generator<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Generator<'b> {
        Generator(Unstructured::new(bytes))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.int_in_range(0..=end - 1).unwrap_or(0)
    }

    pub(crate) fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == odds - 1
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or(0)
    }

    fn number(&mut self) -> i64 {
        self.0.arbitrary().unwrap_or(0)
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        self.choose::<&'static str>(from)
    }

    fn choose<'c, T>(&mut self, from: &'c [T]) -> &'c T {
        &from[self.below(from.len())]
    }

    /// Returns documents with `_id`s from 0 on.
    pub(crate) fn documents(&mut self) -> Vec<RawDocumentBuf> {
        let count = 1 + self.below(5);
        let documents = (0..count).map(|id| {
            let mut document = doc! { "_id": id as i32 };
            for (name, value) in self.document(MAX_VALUE_DEPTH) {
                document.entry(name).or_insert(value);
            }
            raw(&document)
        });
        documents.collect()
    }

    pub(crate) fn document(&mut self, depth: usize) -> Document {
        let fields = (0..self.below(5)).map(|_| (self.pick(&NAMES).to_owned(), self.value(depth)));
        fields.collect()
    }

    pub(crate) fn value(&mut self, depth: usize) -> Bson {
        match self.below(if depth == 0 { 4 } else { 8 }) {
            0..4 => self.scalar(),
            4 | 5 => Bson::Array((0..self.below(5)).map(|_| self.value(depth - 1)).collect()),
            _ => Bson::Document(self.document(depth - 1)),
        }
    }

    pub(crate) fn scalar(&mut self) -> Bson {
        match self.below(24) {
            0..5 => Bson::Int32(self.below(8) as i32 - 2),
            5 => Bson::Int64(self.below(8) as i64 - 2),
            6 => Bson::Int64(self.number()),
            7 => Bson::Double(self.below(16) as f64 / 2.0 - 2.0),
            8 => Bson::Double(f64::from_bits(self.number().cast_unsigned())),
            9 => Bson::Double(f64::NAN),
            10 | 11 => self.decimal(),
            12..15 => Bson::String(self.pick(&TEXTS).to_owned()),
            15 => Bson::Null,
            16 => Bson::Boolean(self.one_in(2)),
            17 => Bson::DateTime(DateTime::from_millis(self.number() >> self.below(64))),
            18 => self.timestamp(),
            19 => Bson::ObjectId(ObjectId::from_bytes([self.byte(); 12])),
            20 => self.binary(),
            21 => self.regex(),
            22 => match self.below(6) {
                0 => Bson::MinKey,
                1 => Bson::MaxKey,
                2 => Bson::Undefined,
                3 => Bson::Symbol(self.pick(&TEXTS).to_owned()),
                4 => Bson::JavaScriptCode(self.pick(&TEXTS).to_owned()),
                _ => Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                    code: self.pick(&TEXTS).to_owned(),
                    scope: doc! { "a": 1 },
                }),
            },
            _ => Bson::Int32(self.number() as i32),
        }
    }

    fn decimal(&mut self) -> Bson {
        if self.one_in(2) {
            let bytes = self.0.arbitrary().unwrap_or([0; 16]);
            return Bson::Decimal128(Decimal128::from_bytes(bytes));
        }
        let decimal = self.pick(&DECIMALS).parse();
        decimal.map_or(Bson::Null, Bson::Decimal128)
    }

    fn timestamp(&mut self) -> Bson {
        let (time, increment) = (self.byte().into(), self.byte().into());
        Bson::Timestamp(Timestamp { time, increment })
    }

    fn binary(&mut self) -> Bson {
        let subtype = BinarySubtype::from(self.byte() % 8);
        let bytes = (0..self.below(4)).map(|_| self.byte()).collect();
        Bson::Binary(Binary { subtype, bytes })
    }

    fn regex(&mut self) -> Bson {
        let pattern = self.pick(&PATTERNS).try_into();
        let options = self.pick(&["", "i", "m", "s", "x"]).try_into();
        match (pattern, options) {
            (Ok(pattern), Ok(options)) => Bson::RegularExpression(Regex { pattern, options }),
            _ => Bson::Null,
        }
    }

    pub(crate) fn path(&mut self) -> String {
        let mut path = self.pick(&NAMES).to_owned();
        for _ in 0..self.below(4).saturating_sub(1) {
            path = format!("{path}.{}", self.pick(&NAMES));
        }
        path
    }

    pub(crate) fn filter(&mut self) -> RawDocumentBuf {
        raw(&self.filter_document(MAX_VALUE_DEPTH))
    }

    pub(crate) fn filter_document(&mut self, depth: usize) -> Document {
        let mut filter = Document::new();
        for _ in 0..1 + self.below(3) {
            let (name, condition) = match self.below(if depth == 0 { 4 } else { 7 }) {
                0..4 => (self.path(), self.condition(depth)),
                _ => {
                    let name = self.pick(&["$and", "$or", "$nor"]).to_owned();
                    let branches = (0..1 + self.below(3)).map(|_| self.filter_document(depth - 1));
                    (
                        name,
                        branches.map(Bson::Document).collect::<Vec<_>>().into(),
                    )
                }
            };
            filter.insert(name, condition);
        }
        filter
    }

    /// Returns a condition on a field.
    fn condition(&mut self, depth: usize) -> Bson {
        if self.one_in(3) {
            return self.value(2);
        }
        Bson::Document(self.operators(depth))
    }

    fn operators(&mut self, depth: usize) -> Document {
        let mut operators = Document::new();
        for _ in 0..1 + self.below(2) {
            let operator = self.pick(&FIELD_OPERATORS);
            let operand = if self.one_in(12) {
                self.value(2)
            } else {
                self.operand(operator, depth)
            };
            operators.insert(operator, operand);
        }
        operators
    }

    fn operand(&mut self, operator: &str, depth: usize) -> Bson {
        let below = depth.saturating_sub(1);
        match operator {
            "$elemMatch" if depth > 0 && self.one_in(2) => self.filter_document(below).into(),
            "$elemMatch" | "$not" if depth > 0 => self.operators(below).into(),
            "$all" | "$in" | "$nin" => {
                let values: Vec<_> = (0..self.below(5)).map(|_| self.value(1)).collect();
                values.into()
            }
            "$exists" => self.one_in(2).into(),
            "$size" => Bson::Int32(self.below(4) as i32),
            "$mod" => vec![self.scalar(), self.scalar()].into(),
            "$regex" => Bson::String(self.pick(&PATTERNS).to_owned()),
            "$options" => Bson::String(self.pick(&["", "i", "m", "s", "x"]).to_owned()),
            "$type" => Bson::Int32(self.below(20) as i32),
            "$bitsAllClear" | "$bitsAllSet" | "$bitsAnyClear" | "$bitsAnySet" => {
                let positions: Vec<_> = (0..self.below(3)).map(|_| self.scalar()).collect();
                if self.one_in(2) {
                    positions.into()
                } else {
                    self.scalar()
                }
            }
            _ => self.value(2),
        }
    }

    pub(crate) fn update(&mut self) -> RawDocumentBuf {
        if self.one_in(8) {
            return raw(&self.document(MAX_VALUE_DEPTH));
        }
        let mut update = Document::new();
        for _ in 0..1 + self.below(3) {
            let operator = self.pick(&UPDATE_OPERATORS);
            let fields =
                (0..1 + self.below(2)).map(|_| (self.update_path(), self.update_operand(operator)));
            let fields: Document = fields.collect();
            update.insert(operator, fields);
        }
        raw(&update)
    }

    fn update_path(&mut self) -> String {
        let mut path = self.pick(&NAMES).to_owned();
        for _ in 0..self.below(4).saturating_sub(1) {
            let next = match self.below(8) {
                0 => "$",
                1 => "$[]",
                2 => "$[x]",
                3 => "$[y]",
                4 => "70",
                _ => self.pick(&NAMES),
            };
            path = format!("{path}.{next}");
        }
        path
    }

    fn update_operand(&mut self, operator: &str) -> Bson {
        if self.one_in(10) {
            return self.value(2);
        }
        match operator {
            "$rename" => self.path().into(),
            "$pop" => Bson::Int32(if self.one_in(2) { 1 } else { -1 }),
            "$currentDate" => true.into(),
            "$bit" => {
                let mut operand = Document::new();
                operand.insert(self.pick(&["and", "or", "xor"]), self.scalar());
                operand.into()
            }
            "$inc" | "$mul" => self.scalar(),
            "$pull" => self.condition(2),
            "$pullAll" => vec![self.value(1), self.value(1)].into(),
            "$push" | "$addToSet" if self.one_in(2) => {
                let values: Vec<_> = (0..self.below(4)).map(|_| self.value(1)).collect();
                let mut operand = doc! { "$each": values };
                if operator == "$push" {
                    self.push_modifiers(&mut operand);
                }
                operand.into()
            }
            _ => self.value(2),
        }
    }

    fn push_modifiers(&mut self, operand: &mut Document) {
        if self.one_in(2) {
            operand.insert("$position", self.below(8) as i32 - 4);
        }
        if self.one_in(2) {
            operand.insert("$slice", self.below(8) as i32 - 4);
        }
        if self.one_in(2) {
            let direction = if self.one_in(2) { 1 } else { -1 };
            let order = match self.one_in(2) {
                true => Bson::Int32(direction),
                false => doc! { self.path(): direction }.into(),
            };
            operand.insert("$sort", order);
        }
    }

    pub(crate) fn array_filters(&mut self) -> Vec<RawDocumentBuf> {
        let names: &[&str] = match self.below(4) {
            0 => &[],
            1 => &["x"],
            2 => &["y"],
            _ => &["x", "y"],
        };
        let mut filters = Vec::new();
        for name in names {
            let path = match self.one_in(2) {
                true => (*name).to_owned(),
                false => format!("{name}.{}", self.path()),
            };
            filters.push(raw(&doc! { path: self.condition(2) }));
        }
        filters
    }

    pub(crate) fn projection(&mut self) -> RawDocumentBuf {
        let mut projection = Document::new();
        let include = self.one_in(2);
        for _ in 0..self.below(4) {
            let (path, value) = match self.below(8) {
                0 => (
                    self.path(),
                    doc! { "$slice": self.below(6) as i32 - 3 }.into(),
                ),
                1 => {
                    let page = vec![
                        Bson::Int32(self.below(6) as i32 - 3),
                        Bson::Int32(self.below(3) as i32),
                    ];
                    (self.path(), doc! { "$slice": page }.into())
                }
                2 => {
                    let conditions = match self.one_in(2) {
                        true => self.filter_document(1),
                        false => self.operators(1),
                    };
                    (
                        self.pick(&NAMES).to_owned(),
                        doc! { "$elemMatch": conditions }.into(),
                    )
                }
                3 => (format!("{}.$", self.path()), Bson::Int32(1)),
                4 => (self.path(), self.value(1)),
                _ => (self.path(), Bson::Boolean(include)),
            };
            projection.insert(path, value);
        }
        raw(&projection)
    }

    /// Returns a sort without ties: by some paths, then by `_id`.
    pub(crate) fn sort(&mut self) -> RawDocumentBuf {
        let mut sort = Document::new();
        for _ in 0..self.below(3) {
            let direction = if self.one_in(2) { 1 } else { -1 };
            sort.insert(self.path(), direction);
        }
        sort.insert("_id", if self.one_in(2) { 1 } else { -1 });
        raw(&sort)
    }

    pub(crate) fn index(&mut self) -> Index {
        let keys = (0..1 + self.below(3)).map(|_| {
            let direction = match self.one_in(2) {
                true => Direction::Ascending,
                false => Direction::Descending,
            };
            (self.path(), direction)
        });
        let mut index = Index::new(keys.collect::<Vec<_>>());
        match self.below(6) {
            0 => index = index.sparse(),
            1 => index = index.partial(self.filter()),
            2 => index = index.unique(),
            _ => {}
        }
        index
    }
}

/// Returns the document as bytes. A name or a pattern with a zero byte is not valid BSON, and gives an empty document.
pub(crate) fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap_or_default()
}

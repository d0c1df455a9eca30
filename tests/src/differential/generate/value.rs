//! Random values of all types, with the boundary values of each type and values that are equal across types.

use bson::raw::{CStr, cstr};
use bson::{
    Binary, Bson, DateTime, Decimal128, Document, Regex, Timestamp, doc, oid::ObjectId,
    spec::BinarySubtype,
};

use super::dice::Dice;
use super::{StepGenerator, ValueKind};

/// Decimals that equal numbers of different types, and decimals that equal no number of a different type.
const DECIMALS: [&str; 16] = [
    "0",
    "-0",
    "0E+3",
    "1",
    "1.0",
    "1.00",
    "2",
    "3",
    "-1",
    "0.1",
    "0.5",
    "1E+3",
    "NaN",
    "Infinity",
    "-Infinity",
    "9007199254740993",
];

const TEXTS: [&str; 14] = [
    "", "a", "b", "A", "ab", "abc", "aab", "B", "a.b", "$a", "é", "10", "a\nb", "ba",
];

/// Returns a value that many documents have.
pub(super) fn common_value(dice: &mut Dice) -> Bson {
    match dice.below(4) {
        0 => Bson::String((*dice.pick(&["a", "b", "c", "ab"])).to_owned()),
        1 => Bson::Double(f64::from(dice.number(0, 8)) / 2.0),
        _ => Bson::Int32(dice.number(0, 6)),
    }
}

/// Returns a value that is neither an array nor a document.
pub(super) fn scalar(dice: &mut Dice) -> Bson {
    match dice.below(26) {
        0..10 => number(dice),
        10..15 => text(dice),
        15..17 => Bson::Null,
        17 => Bson::Boolean(dice.chance(50)),
        18 => Bson::DateTime(DateTime::from_millis(*dice.pick(&[
            0,
            1,
            -1,
            86_400_000,
            1_600_000_000_000,
        ]))),
        19 => Bson::ObjectId(ObjectId::from_bytes([*dice.pick(&[0, 1, 2, 255]); 12])),
        20 => binary(dice),
        21 => Bson::RegularExpression(regex(dice)),
        22 => Bson::MinKey,
        23 => Bson::MaxKey,
        24 => Bson::Timestamp(Timestamp {
            time: *dice.pick(&[1, 2]),
            increment: *dice.pick(&[0, 1, 2]),
        }),
        _ => number(dice),
    }
}

pub(super) fn number(dice: &mut Dice) -> Bson {
    match dice.below(12) {
        0..3 => Bson::Int32(dice.number(-2, 7)),
        3..5 => Bson::Int64(dice.number(-2, 7).into()),
        5..7 => Bson::Double(f64::from(dice.number(-4, 10)) / 2.0),
        7 => Bson::Int32(*dice.pick(&[i32::MAX, i32::MIN, i32::MAX - 1, 100])),
        8 => Bson::Int64(*dice.pick(&[
            i64::MAX,
            i64::MIN,
            i64::MAX - 1,
            1 << 53,
            (1 << 53) + 1,
            i64::from(i32::MAX) + 1,
        ])),
        9 => Bson::Double(*dice.pick(&[
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            0.1,
            1e308,
            5e-324,
            9_007_199_254_740_992.0,
            9_223_372_036_854_775_807.0,
            -9_223_372_036_854_775_808.0,
            2_147_483_648.0,
        ])),
        _ => {
            let text = *dice.pick(&DECIMALS);
            decimal(text)
        }
    }
}

pub(super) fn text(dice: &mut Dice) -> Bson {
    Bson::String((*dice.pick(&TEXTS)).to_owned())
}

/// Returns a regular expression with options.
pub(super) fn regex(dice: &mut Dice) -> Regex {
    let patterns: [&CStr; 16] = [
        cstr!("a"),
        cstr!("^a"),
        cstr!("b$"),
        cstr!("^ab?$"),
        cstr!("a.b"),
        cstr!("[ab]+"),
        cstr!("\\d"),
        cstr!("(a|b)c"),
        cstr!("^a\\.b"),
        cstr!(""),
        cstr!("^$"),
        cstr!("^A"),
        cstr!("a b"),
        cstr!("\\Aa"),
        cstr!("b\\z"),
        cstr!("^(?i)a"),
    ];
    let options: [&CStr; 8] = [
        cstr!(""),
        cstr!(""),
        cstr!(""),
        cstr!("i"),
        cstr!("m"),
        cstr!("s"),
        cstr!("x"),
        cstr!("im"),
    ];
    Regex {
        pattern: (*dice.pick(&patterns)).into(),
        options: (*dice.pick(&options)).into(),
    }
}

/// Parses a decimal. Returns zero if the text is no number.
pub(super) fn decimal(text: &str) -> Bson {
    let number = text.parse::<Decimal128>();
    Bson::Decimal128(number.unwrap_or_else(|_| Decimal128::from_bytes([0; 16])))
}

fn binary(dice: &mut Dice) -> Bson {
    let subtype = *dice.pick(&[
        BinarySubtype::Generic,
        BinarySubtype::Uuid,
        BinarySubtype::UserDefined(0x80),
    ]);
    let bytes: &[&[u8]] = &[&[], &[0], &[1], &[1, 2], &[255; 4]];
    Bson::Binary(Binary {
        subtype,
        bytes: dice.pick(bytes).to_vec(),
    })
}

impl StepGenerator {
    /// Returns a scalar, usually from the pool of common values.
    pub(super) fn scalar(&mut self) -> Bson {
        match self.dice.choose(&self.schema.pool) {
            Some(value) if self.dice.chance(80) => value.clone(),
            _ => scalar(&mut self.dice),
        }
    }

    /// Returns any value with at most `depth` levels of nesting.
    pub(super) fn value(&mut self, depth: usize) -> Bson {
        if depth == 0 {
            return self.scalar();
        }
        match self.dice.below(10) {
            0..5 => self.scalar(),
            5..8 => self.array(depth - 1),
            _ => self.embedded_document(depth - 1).into(),
        }
    }

    /// Returns a value for a field of this kind.
    pub(super) fn value_of(&mut self, kind: ValueKind) -> Bson {
        if self.dice.chance(12) {
            return self.value(2);
        }
        match kind {
            ValueKind::Any => self.value(3),
            ValueKind::Number => self.number(),
            ValueKind::Scalar => self.scalar(),
            ValueKind::Scalars => {
                let count = self.dice.between(0, 4);
                (0..count).map(|_| self.scalar()).collect()
            }
            ValueKind::Document => self.embedded_document(2).into(),
            ValueKind::Documents => {
                let count = self.dice.between(0, 3);
                (0..count)
                    .map(|_| Bson::Document(self.embedded_document(1)))
                    .collect()
            }
            ValueKind::Text => text(&mut self.dice),
        }
    }

    /// Returns a number, usually a small integer.
    pub(super) fn number(&mut self) -> Bson {
        if self.dice.chance(60) {
            return Bson::Int32(self.dice.number(-1, 6));
        }
        number(&mut self.dice)
    }

    pub(super) fn array(&mut self, depth: usize) -> Bson {
        let count = self.dice.between(0, 4);
        (0..count).map(|_| self.value(depth)).collect()
    }

    /// Returns an embedded document.
    pub(super) fn embedded_document(&mut self, depth: usize) -> Document {
        let mut inner = Document::new();
        for name in ["x", "y", "0", "1", "a"] {
            let percent = if matches!(name, "x" | "y") { 60 } else { 8 };
            if self.dice.chance(percent) {
                inner.insert(name, self.value(depth));
            }
        }
        inner
    }

    /// Returns a value similar to the given value: equal, of a different type, a part of the value, or a container of the value.
    pub(super) fn similar_value(&mut self, value: &Bson) -> Bson {
        match self.dice.below(20) {
            0..11 => value.clone(),
            11..14 => self.as_another_type(value),
            14..16 => match value {
                Bson::Array(values) => {
                    let item = self.dice.choose(values).cloned();
                    item.unwrap_or_else(|| self.scalar())
                }
                Bson::Document(document) => {
                    let values: Vec<_> = document.values().cloned().collect();
                    let value = self.dice.choose(&values).cloned();
                    value.unwrap_or_else(|| self.scalar())
                }
                _ => self.scalar(),
            },
            16 => Bson::Array(vec![value.clone()]),
            17 => Bson::Document(doc! { "x": value.clone() }),
            _ => self.value(2),
        }
    }

    fn as_another_type(&mut self, value: &Bson) -> Bson {
        let number = match value {
            Bson::Int32(number) => i64::from(*number),
            Bson::Int64(number) => *number,
            #[expect(
                clippy::cast_possible_truncation,
                reason = "any number like it will do"
            )]
            Bson::Double(number) => *number as i64,
            Bson::Decimal128(number) => number.to_string().parse().unwrap_or(1),
            _ => return self.scalar(),
        };
        match self.dice.below(5) {
            0 => i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32),
            1 => Bson::Int64(number),
            #[expect(clippy::cast_precision_loss, reason = "any number like it will do")]
            2 => Bson::Double(number as f64),
            3 => decimal(&number.to_string()),
            _ => Bson::Int64(number.saturating_add(1)),
        }
    }
}

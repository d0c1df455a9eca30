//! Set equality of elements, as `$addToSet` compares them: numbers are equal by value, independent of width.

use std::collections::BTreeSet;

use bson::{Bson, doc};

use crate::{Result, model::stored::to_raw_document};

/// A set of elements that compares as the server does.
#[derive(Debug, Default)]
pub(crate) struct ElementSet(BTreeSet<Vec<u8>>);

impl ElementSet {
    /// Builds a set of the elements.
    pub(crate) fn from_elements<'e>(elements: impl IntoIterator<Item = &'e Bson>) -> Result<Self> {
        let mut set = Self::default();
        for element in elements {
            set.insert(element)?;
        }
        Ok(set)
    }

    /// Adds an element. Returns whether the element is new.
    pub(crate) fn insert(&mut self, element: &Bson) -> Result<bool> {
        Ok(self.0.insert(set_key(element)?))
    }

    /// Returns whether the set has an equal element.
    pub(crate) fn contains_element(&self, element: &Bson) -> Result<bool> {
        Ok(self.0.contains(&set_key(element)?))
    }

    /// Returns the given elements that the set does not have, in their order.
    pub(crate) fn filter_missing(&self, elements: Vec<Bson>) -> Result<Vec<Bson>> {
        let mut missing = Vec::new();
        for element in elements {
            if !self.contains_element(&element)? {
                missing.push(element);
            }
        }
        Ok(missing)
    }
}

/// Returns a key that is equal for equal elements.
fn set_key(element: &Bson) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    write_key(element, &mut key)?;
    Ok(key)
}

fn write_key(value: &Bson, key: &mut Vec<u8>) -> Result<()> {
    match value {
        Bson::Int32(number) => write_integer(i64::from(*number), key),
        Bson::Int64(number) => write_integer(*number, key),
        Bson::Double(number) => write_double(*number, key),
        Bson::Document(fields) => {
            key.push(b'{');
            for (name, value) in fields {
                key.push(b',');
                write_text(name, key);
                write_key(value, key)?;
            }
            key.push(b'}');
        }
        Bson::Array(elements) => {
            key.push(b'[');
            for element in elements {
                key.push(b',');
                write_key(element, key)?;
            }
            key.push(b']');
        }
        // Decimals are equal only with the same digits. All elements of an array have the same type, so a decimal never meets an
        // integer.
        value => {
            key.push(b'=');
            key.extend(to_raw_document(&doc! { "": value.clone() })?.into_bytes());
        }
    }
    Ok(())
}

fn write_integer(number: i64, key: &mut Vec<u8>) {
    key.push(b'i');
    key.extend(number.to_be_bytes());
}

fn write_double(number: f64, key: &mut Vec<u8>) {
    // The range of `i64`. The end is excluded.
    let integers = -(2.0_f64.powi(63))..2.0_f64.powi(63);
    if number.is_nan() {
        key.push(b'n');
    } else if number.fract() == 0.0 && integers.contains(&number) {
        write_integer(number as i64, key);
    } else {
        key.push(b'd');
        key.extend(number.to_be_bytes());
    }
}

fn write_text(text: &str, key: &mut Vec<u8>) {
    key.extend(text.len().to_be_bytes());
    key.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn are_same(a: impl Into<Bson>, b: impl Into<Bson>) -> bool {
        ElementSet::from_elements([&a.into()])
            .unwrap()
            .contains_element(&b.into())
            .unwrap()
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(are_same(1_i32, 1_i64));
        assert!(are_same(1_i64, 1.0));
        assert!(are_same(0.0, -0.0));
        assert!(are_same(f64::NAN, -f64::NAN));
        assert!(are_same(i64::MIN, -(2.0_f64.powi(63))));
        assert!(!are_same(i64::MAX, 2.0_f64.powi(63)));
        assert!(!are_same(1_i64, 1.5));
        assert!(!are_same(1_i64, "1"));
        assert!(!are_same(1_i64, Bson::Null));
    }

    #[test]
    fn nested_numbers_are_equal_by_value() {
        assert!(are_same(
            doc! { "a": [1_i32, { "b": 2_i64 }] },
            doc! { "a": [1.0, { "b": 2_i32 }] }
        ));
        assert!(!are_same(doc! { "a": 1, "b": 2 }, doc! { "b": 2, "a": 1 }));
        assert!(!are_same(doc! { "a": 1 }, doc! { "a": 1, "b": 2 }));
        assert!(!are_same(vec![Bson::Int64(1)], 1_i64));
        assert!(!are_same(Bson::Array(vec![]), doc! {}));
    }
}
